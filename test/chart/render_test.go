package chart

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/macfleet/macfleet/test/helm"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The root of the repository, and the chart below it.
var (
	root     = filepath.Join("..", "..")
	chartDir = filepath.Join(root, "charts", "macfleet")
)

// helmBinary is found, or built, once.
var helmBinary = sync.OnceValues(func() (string, error) { return helm.Binary(root) })

// render runs `helm template` for the release macfleet in macfleet-system.
func render(ctx context.Context, args ...string) (out, refusal string, err error) {
	return renderAs(ctx, "macfleet", args...)
}

func renderAs(ctx context.Context, release string, args ...string) (out, refusal string, err error) {
	return renderIn(ctx, chartDir, release, args...)
}

func renderIn(ctx context.Context, chart, release string, args ...string) (out, refusal string, err error) {
	binary, err := helmBinary()
	if err != nil {
		return "", "", err
	}
	cmd := exec.CommandContext(ctx, binary, append([]string{"template", release, chart, "--namespace", "macfleet-system"}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	if _, refused := errors.AsType[*exec.ExitError](err); refused {
		return "", stderr.String(), nil
	}
	return stdout.String(), "", err
}

// objects are what the chart renders to with these arguments; a refusal fails the test.
func objects(t *testing.T, args ...string) []*unstructured.Unstructured {
	t.Helper()
	return objectsOf(t, "macfleet", args...)
}

func objectsOf(t *testing.T, release string, args ...string) []*unstructured.Unstructured {
	t.Helper()
	return objectsIn(t, chartDir, release, args...)
}

func objectsIn(t *testing.T, chart, release string, args ...string) []*unstructured.Unstructured {
	t.Helper()
	out, refusal, err := renderIn(t.Context(), chart, release, args...)
	if err != nil || refusal != "" {
		t.Fatalf("helm template %v: %v %s", args, err, refusal)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(out), 4096)
	var found []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return found
		} else if err != nil {
			t.Fatalf("helm template %v renders no YAML: %v", args, err)
		}
		if len(object.Object) > 0 {
			found = append(found, object)
		}
	}
}

// named finds one object; nil where there is none.
func named(found []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	for _, object := range found {
		if object.GetKind() == kind && object.GetName() == name {
			return object
		}
	}
	return nil
}

// managerFlags are the arguments of the manager's container.
func managerFlags(t *testing.T, args ...string) []string {
	t.Helper()
	return managerFlagsOf(t, "macfleet", args...)
}

func managerFlagsOf(t *testing.T, release string, args ...string) []string {
	t.Helper()
	for _, object := range objectsOf(t, release, args...) {
		if object.GetKind() != "Deployment" {
			continue
		}
		containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
		if err != nil || len(containers) != 1 {
			t.Fatalf("the Deployment has %d containers: %v", len(containers), err)
		}
		flags, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
		if err != nil {
			t.Fatal(err)
		}
		return flags
	}
	t.Fatal("no Deployment of the manager")
	return nil
}

// flagValue is what --name is set to, and whether it is there.
func flagValue(flags []string, name string) (string, bool) {
	for _, one := range flags {
		if value, found := strings.CutPrefix(one, "--"+name+"="); found {
			return value, true
		}
	}
	return "", false
}

// set turns values into helm's arguments.
func set(values ...string) []string {
	args := make([]string, 0, 2*len(values))
	for _, value := range values {
		args = append(args, "--set", value)
	}
	return args
}
