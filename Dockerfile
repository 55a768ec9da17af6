# syntax=docker/dockerfile:1

# glibc, certificates and a user without rights; no shell and no package manager. Not `scratch` with musl: what the README says about
# memory and CPU was measured with the allocator of glibc.
ARG BASE=gcr.io/distroless/cc-debian12:nonroot

# Built on a machine of the architecture that it is for: under emulation, link-time optimisation of the whole program takes hours.
FROM rust:1.95.0-bookworm AS build
WORKDIR /source
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    cargo build --profile dist --locked --bin drift-exporter && \
    cp target/dist/drift-exporter /drift-exporter

FROM ${BASE}
COPY LICENSE /LICENSE
COPY --from=build /drift-exporter /drift-exporter
# Where it comes from, which only those know who build it: the address of the sources, the version and the commit.
ARG SOURCE="" VERSION="" REVISION=""
LABEL org.opencontainers.image.title="drift-exporter" \
      org.opencontainers.image.description="Prometheus-native drift exporter for Kubernetes" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# By number, so that the kubelet can tell that it is not root.
USER 65532:65532
EXPOSE 10374
ENTRYPOINT ["/drift-exporter"]
CMD ["run"]
