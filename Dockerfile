# adagq with Flower and torch (CPU): a server, a node or a simulation.
#   docker build -t adagq .      # with --build-arg PIP_EXTRA_INDEX_URL=... for an index of CPU builds of torch: much smaller
#   docker run --rm adagq plan --params 11.2M --uplink 5,20
#   docker run --rm -v "$PWD/runs:/home/adagq/runs" adagq compare --methods fedavg,adagq-fit
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /dist .

FROM python:3.12-slim
ARG PIP_EXTRA_INDEX_URL
COPY --from=build /dist /dist
COPY constraints.txt /dist/
RUN python -m pip install --no-cache-dir --constraint /dist/constraints.txt \
      "$(ls /dist/*.whl)[torch,report,flower]" \
    && rm -r /dist \
    && useradd --create-home --uid 1000 adagq \
    && install --directory --owner adagq /home/adagq/runs
USER 1000
WORKDIR /home/adagq
# The codecs' kernels, compiled once into the user's cache.
RUN python -c "import numpy, adagq; adagq.codecs.decode(adagq.codecs.QSGD().encode(numpy.ones(9, 'f4'), seed=1))"
ENTRYPOINT ["adagq"]
CMD ["--help"]
