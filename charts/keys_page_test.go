package charts

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/internal/booktest"
)

const aboutTheKeys = `
## Annotations, labels and finalizers

An infra machine is a ScalewayAppleSiliconMachine, a host a ScalewayAppleSiliconHost, a remediation a ScalewayAppleSiliconRemediation. Others that macfleet heeds are Cluster API's and Kubernetes' own, as ` + "`cluster.x-k8s.io/paused`" + `: the pages that use them say what for.
`

var (
	// ofAnObject is the name of a constant that is a key in the metadata of objects. Those of
	// systems before this one are in no page.
	ofAnObject = regexp.MustCompile(`(?i)^label|(annotation|label|finalizer)$`)
	ofOthers   = regexp.MustCompile(`(?i)^(legacy|former)`)
	aKey       = regexp.MustCompile(`^[a-z0-9.-]+/[a-z0-9.-]+$`)
)

// keySection has the keys that the code knows by name. One that says nothing of itself fails the test.
func keySection(t *testing.T) string {
	t.Helper()
	found := map[string]string{}
	for _, dir := range []string{"api", "internal"} {
		err := filepath.WalkDir(filepath.Join("..", dir), func(path string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				addKeys(t, path, found)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var yours, own [][]string
	for key, said := range found {
		words, macfleets := owner(said)
		if row := []string{booktest.Code(key), booktest.Words(words)}; macfleets {
			own = append(own, row)
		} else {
			yours = append(yours, row)
		}
	}
	if len(yours) < 4 || len(own) < 15 {
		t.Fatalf("%d and %d keys: the search is broken", len(yours), len(own))
	}
	slices.SortFunc(yours, slices.Compare)
	slices.SortFunc(own, slices.Compare)
	return aboutTheKeys + booktest.Table([]string{"for you to write", "meaning"}, yours) + booktest.Table([]string{"what macfleet writes", "meaning"}, own)
}

// addKeys adds those of a file, each with its comment without the name of the constant.
func addKeys(t *testing.T, path string, found map[string]string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, declared := range file.Decls {
		group, is := declared.(*ast.GenDecl)
		if !is || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			constant := spec.(*ast.ValueSpec)
			name, key := constant.Names[0].Name, textOf(constant)
			if !ofAnObject.MatchString(name) || ofOthers.MatchString(name) || !aKey.MatchString(key) || found[key] != "" {
				continue
			}
			said := constant.Doc.Text()
			if !group.Lparen.IsValid() {
				said = group.Doc.Text()
			}
			words, hasName := strings.CutPrefix(said, name+" ")
			if !hasName {
				t.Errorf("%s: %s says nothing of itself", path, name)
			}
			found[key] = words
		}
	}
}

// textOf is the value of a constant that is a text.
func textOf(constant *ast.ValueSpec) string {
	if len(constant.Values) != 1 {
		return ""
	}
	literal, is := constant.Values[0].(*ast.BasicLit)
	if !is || literal.Kind != token.STRING {
		return ""
	}
	text, err := strconv.Unquote(literal.Value)
	if err != nil {
		return ""
	}
	return text
}
