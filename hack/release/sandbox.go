package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/macfleet/macfleet/hack/release/archive"
	"github.com/macfleet/macfleet/hack/release/compile"
	"github.com/macfleet/macfleet/sandbox/cluster"
	"github.com/macfleet/macfleet/sandbox/world"
)

// sandboxArchive packs macfleet for Linux with all that its sandbox runs, so that
// `macfleet sandbox demo` needs no compiler.
func (r *release) sandboxArchive(ctx context.Context) error {
	r.say("building the sandbox's programs; its control plane takes minutes the first time")
	layout := r.sandbox()
	built, err := cluster.Build(ctx, cluster.BuildOptions{SourceDir: r.root})
	if err != nil {
		return fmt.Errorf("building the sandbox's control plane: %w", err)
	}
	if err := r.buildSandbox(ctx, layout); err != nil {
		return err
	}
	for from, to := range map[string]string{
		built.ControlPlane:                   layout.Cluster.ControlPlane,
		built.Core:                           layout.Cluster.Core,
		built.Manifests:                      layout.Cluster.Manifests,
		r.built("manager_linux_amd64"):       layout.Manager,
		r.built("tart-kubelet_darwin_arm64"): filepath.Join(layout.AgentDir, "tart-kubelet"),
	} {
		if err := link(from, to); err != nil {
			return err
		}
	}
	return r.packSandbox()
}

func (r *release) sandboxDir() string { return filepath.Join(r.work, "sandbox") }

// sandbox is where the sandbox's programs are put together.
func (r *release) sandbox() world.Binaries { return world.Layout(r.sandboxDir()) }

// sandboxAlone makes that archive and nothing else.
func (r *release) sandboxAlone(ctx context.Context) error {
	if err := r.build(ctx, "macfleet_linux_amd64", "manager_linux_amd64", "tart-kubelet_"); err != nil {
		return err
	}
	return r.sandboxArchive(ctx)
}

// buildSandbox builds what only the sandbox runs.
func (r *release) buildSandbox(ctx context.Context, layout world.Binaries) error {
	compiler := compile.Compiler{Root: r.root, Version: r.version}
	group, ctx := errgroup.WithContext(ctx)
	for out, pkg := range map[string]string{
		layout.AgentTwin:                     "cmd/tart-kubelet",
		filepath.Join(layout.Mac, "macsim"):  "sandbox/mac/cmd/macsim",
		filepath.Join(layout.Mac, "macshim"): "sandbox/mac/cmd/macshim",
	} {
		group.Go(func() error {
			return compiler.Build(ctx, compile.Program{Package: pkg, OS: "linux", Arch: "amd64", Tags: agentTags}, out)
		})
	}
	return group.Wait()
}

// sandboxPrograms are those that are in the sandbox's archive alone, by the name that the SBOM
// gives them.
func sandboxPrograms(layout world.Binaries) map[string]string {
	return map[string]string{
		"sandbox_controlplane_linux_amd64": layout.Cluster.ControlPlane,
		"sandbox_core_linux_amd64":         layout.Cluster.Core,
		"sandbox_tart-kubelet_linux_amd64": layout.AgentTwin,
		"sandbox_macsim_linux_amd64":       filepath.Join(layout.Mac, "macsim"),
		"sandbox_macshim_linux_amd64":      filepath.Join(layout.Mac, "macshim"),
	}
}

// link puts a file or a folder into the layout without copying it.
func link(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("laying out the sandbox's programs: %w", err)
	}
	if err := os.Symlink(from, to); err != nil {
		return fmt.Errorf("laying out the sandbox's programs: %w", err)
	}
	return nil
}

func (r *release) packSandbox() error {
	name := fmt.Sprintf("macfleet_%s_linux_amd64_sandbox", r.version)
	entries, err := archive.Tree(r.sandboxDir(), path.Join(name, "sandbox"))
	if err != nil {
		return fmt.Errorf("listing the sandbox's programs: %w", err)
	}
	entries = append(entries,
		archive.Entry{Name: path.Join(name, "LICENSE"), Source: filepath.Join(r.root, "LICENSE")},
		archive.Entry{Name: path.Join(name, "macfleet"), Source: r.built("macfleet_linux_amd64"), Executable: true},
		archive.Entry{Name: path.Join(name, "kubectl-macfleet"), Link: "macfleet"},
		archive.Entry{Name: path.Join(name, "tart-kubelet"), Link: "sandbox/agent/tart-kubelet"},
	)
	return archive.WriteGzip(filepath.Join(r.out, name+".tar.gz"), r.made, entries)
}
