// Charts, and nothing else: every page works without this file. The numbers are in the page (charts.py); nothing is fetched.
"use strict";
(() => {
  // Okabe and Ito's colours, which people who see fewer colours can tell apart.
  const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a8a00", "#7a7a7a", "#5b3a99", "#00847e"];
  const style = () => getComputedStyle(document.documentElement);
  const short = (value) => value == null ? "–" : Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(value);

  // Each series on top of those before it; uPlot draws the areas between.
  function stacked(series) {
    let below = null;
    return series.map((one) => {
      below = one.values.map((value, at) => (value || 0) + (below ? below[at] : 0));
      return below;
    });
  }

  function draw(place) {
    const chart = JSON.parse(place.dataset.chart);
    const values = chart.stacked ? stacked(chart.series) : chart.series.map((one) => one.values);
    const order = chart.series.map((_, at) => at);
    if (chart.stacked) order.reverse(); // the largest sum is drawn first, the others over it
    const line = style().getPropertyValue("--line"), text = style().getPropertyValue("--soft");
    const axis = { stroke: text, grid: { stroke: line, width: 1 }, ticks: { stroke: line } };
    place.replaceChildren();
    new uPlot({
      width: place.clientWidth || 400, height: 210, cursor: { drag: { x: false, y: false } },
      scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
      axes: [axis, { ...axis, size: 62, values: (_, ticks) => ticks.map(short) }],
      series: [{ label: "night", value: "{YYYY}-{MM}-{DD}" }, ...order.map((at) => ({
        label: chart.series[at].name, stroke: COLOURS[at % COLOURS.length], width: 2, dash: !chart.stacked && at ? [6, 5] : undefined, points: { show: chart.x.length < 15 },
        fill: chart.stacked ? COLOURS[at % COLOURS.length] : undefined,
        value: (_, __, ___, row) => row == null ? "–" : short(chart.series[at].values[row]) + " " + chart.unit,
      }))],
    }, [chart.x, ...order.map((at) => values[at])], place);
  }

  const all = () => document.querySelectorAll("[data-chart]").forEach(draw);
  let waiting;
  addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(all, 150); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
  all();
})();
