package e2e

import (
	"context"
	"flag"
	"path/filepath"
	"strings"

	"github.com/macfleet/macfleet/sandbox/world"
)

// With these TestInstallByThePage takes nothing but the page from the checkout: make release-test
// gives them, once the files of a release are in a registry.
var (
	releaseFlag = flag.String("release", "", "folder with a release: its files in dist/, the sandbox's programs in sandbox/, and in root/ what its image holds")
	imageFlag   = flag.String("image", "", "the release's image in the registry, as REPOSITORY:TAG@DIGEST")
	chartFlag   = flag.String("chart", "", "the release's chart in the registry, as oci://REPOSITORY")
)

// programs are the release's, or those of the checkout. A manager of a release is the one of its
// image, and finds the agent as it lies there.
func programs(ctx context.Context, progress func(string)) (world.Binaries, error) {
	if *releaseFlag == "" {
		return world.Build(ctx, world.BuildOptions{Progress: progress})
	}
	all, err := world.Build(ctx, world.BuildOptions{Prebuilt: filepath.Join(*releaseFlag, "sandbox"), Progress: progress})
	all.Manager, all.AgentDir = filepath.Join(*releaseFlag, "root", "manager"), filepath.Join(*releaseFlag, "root", "agent")
	return all, err
}

// fromRegistry is what people type in place of the page's words whose release is in a registry.
func fromRegistry() []string {
	if *releaseFlag == "" {
		return nil
	}
	repository, _, _ := strings.Cut(*imageFlag, ":v")
	return []string{
		"dist/macfleet-0.1.0.tgz", *chartFlag + " --version 0.1.0 --plain-http",
		"registry.example/macfleet/manager", repository,
	}
}

// chartIsPulled holds that helm says that it had the chart from the registry.
func (f *fleet) chartIsPulled(said string) {
	f.Helper()
	if *releaseFlag != "" && !strings.Contains(said, "Pulled: "+strings.TrimPrefix(*chartFlag, "oci://")+":") {
		f.Errorf("helm has the chart from elsewhere than %s:\n%s", *chartFlag, said)
	}
}

// imageIsReleased says of a container's image whether a node would find it in the registry.
func (f *fleet) imageIsReleased(where, image string) {
	f.Helper()
	if *releaseFlag != "" && image != *imageFlag {
		f.Errorf("the image of %s is %s; the registry has %s", where, image, *imageFlag)
	}
}

// agentsAreReleased holds that the Macs run the build that was uploaded to them.
func (w *walk) agentsAreReleased(macs int) {
	w.Helper()
	if *releaseFlag == "" {
		return
	}
	_, version, _ := strings.Cut(*imageFlag, ":v")
	version, _, _ = strings.Cut(version, "@")
	if nodes := w.bash("kubectl get nodes -o name -l macfleet.dev/agent-version=v" + version); strings.Count(nodes, "node/") != macs {
		w.Errorf("of %d Nodes, these run the release's agent, v%s: %q", macs, version, nodes)
	}
}
