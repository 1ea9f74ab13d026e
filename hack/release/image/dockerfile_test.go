package image

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Who builds with docker gets what releases hold.
func TestTheDockerfileSaysTheSame(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	config, err := images(t, index(t, spec(t)))["linux/amd64"].ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"USER " + config.Config.User + "\n", `ENTRYPOINT ["` + strings.Join(config.Config.Entrypoint, `", "`) + `"]`,
		"-o /out/manager ./cmd/manager\n", "GOOS=darwin GOARCH=arm64 go build -tags grpcnotrace", "-o /out/agent/tart-kubelet ./cmd/tart-kubelet && gzip -n /out/agent/tart-kubelet\n",
		`org.opencontainers.image.title="` + config.Config.Labels["org.opencontainers.image.title"] + `"`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the Dockerfile has no %q", want)
		}
	}
}
