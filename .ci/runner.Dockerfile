# A self-hosted runner for the cells of a fleet. The container's runtime adds the GPU driver; the
# libraries to measure come from a layer over this image.
FROM ghcr.io/actions/actions-runner:2.337.0
ARG TARGETARCH
USER root
COPY collectivex_*_${TARGETARCH}.deb /tmp/
RUN dpkg -i /tmp/collectivex_*.deb && rm /tmp/collectivex_*.deb && cxrun --version
USER runner
