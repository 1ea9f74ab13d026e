package e2e

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/sandbox/world"
)

// example is a manifest of the book, as a reader copies it.
func (f *fleet) example(page, name string) string {
	f.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", filepath.FromSlash(page)))
	if err != nil {
		f.Fatal(err)
	}
	found := regexp.MustCompile("(?s)<!-- example: " + regexp.QuoteMeta(name) + "\\b[^\n]*-->\n```yaml\n(.*?)```").FindSubmatch(text)
	if found == nil {
		f.Fatalf("%s holds no example %s", page, name)
	}
	return string(found[1])
}

// types runs a command of the book in a shell, as a reader types it: with the words in
// capitals replaced.
func (f *fleet) types(page, command string, words ...string) {
	f.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", filepath.FromSlash(page)))
	if err != nil {
		f.Fatal(err)
	}
	if !strings.Contains(string(text), command) {
		f.Fatalf("%s does not say: %s", page, command)
	}
	bin := filepath.Join(f.dir, "bin")
	if err := binaries.Cluster.EnvtestAssets(bin); err != nil {
		f.Fatal(err)
	}
	typed := strings.NewReplacer(append(words, "NAMESPACE", world.Namespace)...).Replace(command)
	cmd := exec.CommandContext(f.Context(), "sh", "-c", typed)
	cmd.Dir, cmd.Env = f.dir, append(os.Environ(), "KUBECONFIG="+f.world.Kubeconfig(), "PATH="+bin+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		f.Fatalf("%s: %v\n%s", typed, err, out)
	}
}

// apply creates the objects of a manifest.
func (f *fleet) apply(manifest string) {
	f.Helper()
	f.eachOf(manifest, func(object client.Object) error { return f.client.Create(f.Context(), object) })
}

// discard deletes them, and waits for the Pods to go.
func (f *fleet) discard(manifest string) {
	f.Helper()
	f.eachOf(manifest, func(object client.Object) error {
		return f.client.Delete(f.Context(), object, client.PropagationPolicy(metav1.DeletePropagationBackground))
	})
	f.awaitNoPods()
}

func (f *fleet) eachOf(manifest string, do func(client.Object) error) {
	f.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			f.Fatalf("the manifest cannot be read: %v", err)
		}
		if object.GetNamespace() == "" {
			object.SetNamespace(metav1.NamespaceDefault)
		}
		if err := do(object); err != nil {
			f.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
}
