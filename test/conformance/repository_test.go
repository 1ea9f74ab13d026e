package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheReleasedTemplatesFitASandbox(t *testing.T) {
	dir := t.TempDir()
	config, err := writeRepository(filepath.Join("..", "..", "config", "clusterctl"), dir, key{private: []byte("secret"), public: []byte("shown")})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(config); err != nil || !strings.Contains(string(text), "infrastructure-macfleet/"+providerVersion) {
		t.Errorf("clusterctl's configuration: %v\n%s", err, text)
	}
	for file, has := range map[string]string{
		"cluster-template.yaml": "type: OnDelete", "cluster-template-topology.yaml": "classRef:", "cluster-template-rolling.yaml": "type: RollingUpdate",
		"cluster-template-remediation.yaml": "e2e.remediation.condition", "clusterclass-macfleet.yaml": "kind: ClusterClass", "metadata.yaml": "releaseSeries:",
	} {
		text, err := os.ReadFile(filepath.Join(dir, "infrastructure-macfleet", providerVersion, file))
		if err != nil || !strings.Contains(string(text), has) {
			t.Errorf("%s: %v, want %q in it", file, err, has)
		}
		if !strings.HasPrefix(file, "cluster-template") {
			continue
		}
		for _, piece := range []string{"allow-delete", "ssh-privatekey: c2VjcmV0\n", "soak: 5s"} {
			if !strings.Contains(string(text), piece) {
				t.Errorf("%s: no %q", file, piece)
			}
		}
		if strings.Contains(string(text), "TART_") {
			t.Errorf("%s asks for a tart", file)
		}
	}
}

func TestATemplateThatDoesNotFitIsRefused(t *testing.T) {
	fits := "kind: Cluster\nmetadata:\n---\nspec:\n  tart:\n    version: x\n"
	if _, err := forSandbox(fits, key{}, nil); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		text    string
		changes []change
	}{
		"no Cluster":        {"kind: Machine\nmetadata:\nspec:\n  tart:\n    version: x\n", nil},
		"no tart":           {"kind: Cluster\nmetadata:\n", nil},
		"nothing to change": {fits, []change{{from: "type: OnDelete"}}},
	} {
		if _, err := forSandbox(c.text, key{}, c.changes); err == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
}

// Each table is written below its own mark, and ends before the next heading.
func TestTablesOfAPageAreApart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte("head\n\n"+tableMark+"old\n\n## Next\n\ntext\n\n"+clusterAPIMark+"old\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	all := specs{Focus: []string{"."}}
	writeTable(t, path, tableMark, all, []result{{Name: "[a] one", Outcome: passed}})
	writeTable(t, path, clusterAPIMark, all, []result{{Name: "[b] two", Outcome: left, Why: "no"}})
	writeTable(t, path, tableMark, all, []result{{Name: "[a] three", Outcome: passed}})
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := "head\n\n" + tableMark + "\n2 specs passed, 0 failed, 0 were skipped.\n\n| Spec | Result |\n| --- | --- |\n| [a] one | passed |\n| [a] three | passed |\n\n## Next\n\ntext\n\n" +
		clusterAPIMark + "\n0 specs passed, 0 failed, 1 were skipped.\n\n| Spec | Result |\n| --- | --- |\n| [b] two | skipped: no |\n"
	if string(got) != want {
		t.Errorf("the page is\n%s\nwant\n%s", got, want)
	}
}
