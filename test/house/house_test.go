// Package house holds the rules of the house: which way imports run, where build
// tags may be, and that every package says what it is for. A wrong import fails
// here and not in a review.
package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/macfleet/macfleet"

// listed is what `go list -json` says of one package.
type listed struct {
	ImportPath   string
	Dir          string
	Doc          string
	Imports      []string
	TestImports  []string
	XTestImports []string
	GoFiles      []string
	Deps         []string
	IgnoredGo    []string `json:"IgnoredGoFiles"`
}

// path is the package's folder below the root.
func (p listed) path() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

// ours are the packages of this module among the imports, as folders.
func ours(imports []string) []string {
	var folders []string
	for _, imported := range imports {
		if folder, found := strings.CutPrefix(imported, module+"/"); found {
			folders = append(folders, folder)
		}
	}
	return folders
}

// rule says what the packages below a folder may import of ours.
type rule struct {
	below string
	// only, when set, lists every folder of ours that may be imported.
	only []string
	// never lists folders of ours that may not be imported.
	never []string
	// neverOutside lists modules that may not be imported at all, also indirectly.
	neverOutside []string
	why          string
}

var rules = []rule{
	{below: "api", only: []string{"api"}, why: "the API imports nothing of ours"},
	{below: "internal/accept", only: []string{"internal/accept", "internal/converge", "internal/remote"}, neverOutside: []string{"sigs.k8s.io/controller-runtime"}, why: "accept needs a Mac and no cluster"},
	{below: "internal/cli", never: []string{"internal/controller", "internal/agent", "internal/converge", "internal/remote"}, why: "the CLI knows a cluster by its objects"},
	{below: "internal/cli/explain", only: []string{"api", "internal/cli/clitest", "internal/cli/explain", "internal/cli/reasons", "internal/cli/screen", "internal/cli/show", "internal/cli/snapshot", "internal/host", "internal/rollout"}, why: "explain decides: no client, no I/O"},
	{below: "internal/cli/reasons", only: []string{"api", "docs/operate"}, neverOutside: []string{"sigs.k8s.io/controller-runtime"}, why: "reasons reads the book, and knows no objects"},
	{below: "internal/cli/screen", only: []string{}, neverOutside: []string{"k8s.io"}, why: "screen writes, and knows no objects"},
	{below: "internal/cloud", only: []string{"api", "internal/cloud"}, why: "cloud is a seam: it knows the API at most"},
	{below: "internal/fleetkey", only: []string{"internal/fleetkey"}, neverOutside: []string{"sigs.k8s.io/controller-runtime"}, why: "fleetkey decides: no client, no I/O"},
	{below: "internal/host", only: []string{"api", "internal/booktest", "internal/cloud", "internal/host"}, why: "host decides: no client, no I/O"},
	{below: "internal/machine", only: []string{"api", "internal/host", "internal/machine", "internal/rollout", "internal/converge/document", "internal/workload"}, why: "machine decides: no client, no I/O"},
	{below: "internal/memo", only: []string{}, why: "memo knows keys and values and nothing else"},
	{below: "internal/order", never: []string{"internal/controller", "sandbox"}, why: "a service is below the controllers"},
	{below: "internal/owner", only: []string{"internal/clienttest"}, why: "owner knows Secrets and references, and no kind of ours"},
	{below: "internal/push", never: []string{"internal/controller", "sandbox"}, why: "a service is below the controllers"},
	{below: "internal/requeue", only: []string{}, why: "requeue knows errors and results and nothing else"},
	{below: "internal/tracing", only: []string{"internal/tracing"}, why: "tracing makes spans, and knows nothing of what they are of"},
	{below: "internal/watch", only: []string{}, why: "watch knows events and nothing else"},
	{below: "internal/rollout", only: []string{"api", "internal/converge/document", "internal/rollout"}, why: "rollout decides: no client, no I/O"},
	{below: "internal/converge/document", only: []string{}, why: "what both sides agree on depends on neither"},
	{below: "internal/converge", only: []string{"internal/atomicfile", "internal/booktest", "internal/converge", "internal/filetree"}, neverOutside: []string{"sigs.k8s.io/controller-runtime", "github.com/scaleway/scaleway-sdk-go"}, why: "converge is the Mac's side"},
	{below: "internal/converge/step", only: below("internal/converge", "document", "macos", "step"), why: "step is the ground of the steps, and knows none"},
	{below: "internal/converge/builds", only: below("internal/converge", "builds", "document", "macos", "step"), why: "builds are kept, not run"},
	{below: "internal/converge/session", only: below("internal/converge", "document", "macos", "session", "step"), why: "hostd keeps the session, too"},
	{below: "internal/converge/firewall", only: below("internal/converge", "document", "firewall", "macos", "step"), why: "hostd keeps the firewall, too"},
	{below: "internal/converge/proofreboot", only: below("internal/converge", "builds", "document", "macos", "proofreboot", "session", "step"), why: "the jobs wait for the proof reboot"},
	{below: "internal/converge/launchd", only: below("internal/converge", "builds", "document", "launchd", "macos", "proofreboot", "step"), why: "launchd runs builds, and knows no other system's agent"},
	{below: "internal/macnode", only: []string{"internal/converge/document", "internal/macnode"}, neverOutside: []string{"sigs.k8s.io/controller-runtime"}, why: "what a Mac is as a Node is said for both sides, and read by neither"},
	{below: "internal/agent", only: []string{"internal/agent", "internal/atomicfile", "internal/converge/document", "internal/filetree", "internal/macnode"}, neverOutside: []string{"sigs.k8s.io/controller-runtime", "github.com/scaleway/scaleway-sdk-go"}, why: "the agent is the Mac's side"},
	{below: "internal/agent/pod/state", only: []string{"internal/agent/pod/state", "internal/agent/pod/podtest", "internal/agent/pod/volume", "internal/agent/shim", "internal/agent/vm"}, why: "state decides about a Pod: no client, no I/O"},
	{below: "internal/agent/pod/admission", only: []string{"internal/agent/pod/admission", "internal/agent/pod/admissiontest", "internal/agent/pod/podtest", "internal/agent/pod/state", "internal/agent/pod/volume", "internal/agent/vm", "internal/macnode"}, why: "admission decides about a Pod: no client, no I/O"},
	{below: "internal/agent/pod/firewall", only: []string{"internal/agent/pod/firewall", "internal/agent/pod/state", "internal/agent/pod/wait"}, why: "firewall asks the guard and knows no VM"},
	{below: "internal/agent/pod/action", only: []string{}, why: "action asks a guest through its one interface"},
	{below: "internal/agent/pod/hook", only: below("internal/agent/pod", "action", "actiontest", "hook", "wait"), why: "hook knows no Pod: its worker says when"},
	{below: "internal/agent/pod/probe", only: below("internal/agent/pod", "action", "actiontest", "env", "probe", "wait"), why: "probe knows one container, and its worker draws the conclusions"},
	{below: "internal/agent/pod/vmruntime", only: []string{"internal/agent/pod/vmruntime", "internal/agent/pod/state", "internal/agent/pod/wait", "internal/agent/shim", "internal/agent/vm"}, why: "vmruntime is below the worker"},
	{below: "internal/agent/shim", neverOutside: []string{"k8s.io"}, why: "a shim knows nothing of Pods, and there is one for each machine"},
	{below: "internal/atomicfile", only: []string{}, why: "atomicfile replaces one file and knows nothing else"},
	{below: "internal/filetree", only: []string{}, why: "filetree knows trees of files and nothing else"},
	{below: "internal/remote", only: []string{"internal/remote", "internal/converge/document"}, why: "remote reaches a Mac and decides nothing"},
	{below: "cmd/tart-kubelet", never: []string{"internal/controller", "internal/cloud", "internal/remote", "sandbox"}, neverOutside: []string{"sigs.k8s.io/controller-runtime", "github.com/scaleway/scaleway-sdk-go", "k8s.io/client-go/kubernetes"}, why: "the agent's binary holds no vendor SDK, no controller-runtime and no client of all kinds there are"},
	{below: "sandbox", only: []string{"sandbox"}, why: "the sandbox speaks HTTP and SSH as a stranger would"},
}

// below names folders in a folder.
func below(folder string, names ...string) []string {
	for i, name := range names {
		names[i] = folder + "/" + name
	}
	return names
}

// may import sandbox: the CLI, which starts it, and tests.
var mayImportSandbox = []string{"sandbox", "cmd/macfleet", "test"}

// may hold build tags or files for one system only.
var mayHaveBuildTags = []string{"internal/agent/hostos", "internal/agent/vm", "internal/converge/macos", "sandbox"}

func TestImportsRunOneWay(t *testing.T) {
	packages := list(t, "./...")
	for _, p := range packages {
		for _, broken := range brokenRules(p) {
			t.Error(broken)
		}
	}
}

func TestAgentHoldsNeitherSDKNorControllerRuntime(t *testing.T) {
	for _, p := range list(t, "./...", "Deps") {
		for _, r := range rules {
			if !within(p.path(), r.below) {
				continue
			}
			for _, banned := range r.neverOutside {
				if i := slices.IndexFunc(p.Deps, func(dependency string) bool { return within(dependency, banned) }); i >= 0 {
					t.Errorf("%s depends on %s: %s", p.path(), p.Deps[i], r.why)
				}
			}
		}
	}
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	for _, p := range list(t, "./...") {
		if p.Doc == "" && len(p.GoFiles) > 0 {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

func TestBuildTagsOnlyWhereTheSystemsDiffer(t *testing.T) {
	for _, p := range list(t, "./...") {
		if slices.ContainsFunc(mayHaveBuildTags, func(folder string) bool { return within(p.path(), folder) }) {
			continue
		}
		for _, ignored := range p.IgnoredGo {
			t.Errorf("%s is left out of the build on this system; only %s may differ", filepath.Join(p.path(), ignored), strings.Join(mayHaveBuildTags, ", "))
		}
		for _, file := range p.GoFiles {
			if !strings.HasPrefix(file, "zz_generated.") && tagged(t, filepath.Join(p.Dir, file)) {
				t.Errorf("%s has a build tag; only %s may", filepath.Join(p.path(), file), strings.Join(mayHaveBuildTags, ", "))
			}
		}
	}
}

// TestRulesCatch keeps the rules themselves honest.
func TestRulesCatch(t *testing.T) {
	for _, c := range []struct {
		pkg, imports string
		broken       bool
	}{
		{"internal/host", "internal/cloud", false},
		{"internal/host", "internal/controller/host", true},
		{"internal/controller/machine", "internal/controller/host", true},
		{"internal/controller/machine", "internal/host", false},
		{"internal/agent/pod", "internal/remote", true},
		{"internal/converge/document", "internal/converge", true},
		{"internal/controller/machine", "sandbox/scaleway", true},
		{"sandbox/world", "internal/cloud", true},
		{"cmd/macfleet", "sandbox/world", false},
		{"api/infrastructure/v1alpha1", "internal/host", true},
		{"internal/hosting", "internal/agent", false},
	} {
		p := listed{ImportPath: module + "/" + c.pkg, Imports: []string{module + "/" + c.imports}}
		if got := len(brokenRules(p)) > 0; got != c.broken {
			t.Errorf("%s imports %s: broken = %v, want %v", c.pkg, c.imports, got, c.broken)
		}
	}
}

// brokenRules says in one sentence each which rules a package breaks.
func brokenRules(p listed) []string {
	var broken []string
	imports := ours(slices.Concat(p.Imports, p.TestImports, p.XTestImports))
	for _, imported := range imports {
		for _, r := range rules {
			if within(p.path(), r.below) && !r.allows(imported) {
				broken = append(broken, fmt.Sprintf("%s imports %s: %s", p.path(), imported, r.why))
			}
		}
		if from, to := controller(p.path()), controller(imported); from != "" && to != "" && from != to {
			broken = append(broken, fmt.Sprintf("%s imports %s: controllers meet through objects alone", p.path(), imported))
		}
		if within(imported, "sandbox") && !slices.ContainsFunc(mayImportSandbox, func(folder string) bool { return within(p.path(), folder) }) {
			broken = append(broken, fmt.Sprintf("%s imports %s: only the CLI and tests may", p.path(), imported))
		}
	}
	return broken
}

func (r rule) allows(imported string) bool {
	in := func(folder string) bool { return within(imported, folder) }
	if slices.ContainsFunc(r.never, in) {
		return false
	}
	return r.only == nil || slices.ContainsFunc(r.only, in)
}

// controller names the controller a folder belongs to.
func controller(folder string) string {
	name, found := strings.CutPrefix(folder, "internal/controller/")
	if !found {
		return ""
	}
	first, _, _ := strings.Cut(name, "/")
	return first
}

func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}

func tagged(t *testing.T, file string) bool {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly|parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range parsed.Comments {
		for _, comment := range group.List {
			if strings.HasPrefix(comment.Text, "//go:build ") {
				return true
			}
		}
	}
	return false
}

// list asks go list of the packages, for what it says quickly and the fields named.
func list(t *testing.T, pattern string, fields ...string) []listed {
	t.Helper()
	fields = append(fields, "ImportPath", "Dir", "Doc", "Imports", "TestImports", "XTestImports", "GoFiles", "IgnoredGoFiles")
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json="+strings.Join(fields, ","), pattern)
	cmd.Dir = filepath.Join("..", "..")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, stderr.String())
	}
	decoder := json.NewDecoder(bytes.NewReader(out))
	var packages []listed
	for {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}
