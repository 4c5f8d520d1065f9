"""Words of languages: function words, forms and stems."""
