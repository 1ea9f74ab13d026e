# The manager's image, for people with docker: docker build --build-arg VERSION=v0.1.0 .
# `make image` makes the same without a daemon, and is what releases are made with.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETARCH VERSION=v0.1.0-dev
WORKDIR /src
COPY . .
ENV CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false"
RUN GOOS=linux GOARCH=$TARGETARCH go build -ldflags "-s -w -X main.version=$VERSION" -o /out/manager ./cmd/manager
RUN GOOS=darwin GOARCH=arm64 go build -tags grpcnotrace -ldflags "-s -w -X main.version=$VERSION" -o /out/agent/tart-kubelet ./cmd/tart-kubelet && gzip -n /out/agent/tart-kubelet

FROM gcr.io/distroless/static:nonroot
ARG VERSION=v0.1.0-dev
LABEL org.opencontainers.image.title="macfleet manager" \
      org.opencontainers.image.source="https://github.com/macfleet/macfleet" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION"
COPY --from=build /out/ /
USER 65532:65532
ENTRYPOINT ["/manager"]
