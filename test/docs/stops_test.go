package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// stop is a place in the code that a page leads to: `internal/host/choose.go: Choose`, or
// `…: Type.method`.
var stop = regexp.MustCompile("`([\\w./-]+\\.go): ([^`\n]*)`")

func TestWalksLeadThroughCodeThatExists(t *testing.T) {
	declared := map[string]map[string]bool{}
	stops := 0
	for path, page := range pages(t) {
		for _, match := range stop.FindAllStringSubmatch(page, -1) {
			stops++
			file, name := match[1], match[2]
			if declared[file] == nil {
				declared[file] = declaredIn(t, file)
			}
			if !declared[file][name] {
				t.Errorf("%s: there is no %s in %s", strings.TrimPrefix(path, root+"/"), name, file)
			}
		}
	}
	if stops < 40 {
		t.Errorf("only %d stops found: the search is broken, or docs/architecture.md has lost its walks", stops)
	}
}

// declaredIn are the functions, Type.methods and types of a file; none if it does not exist.
func declaredIn(t *testing.T, file string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return found
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, declaration := range parsed.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			found[functionName(d)] = true
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if named, ok := spec.(*ast.TypeSpec); ok {
					found[named.Name.Name] = true
				}
			}
		}
	}
	return found
}

// functionName is Function or Type.method.
func functionName(function *ast.FuncDecl) string {
	if function.Recv == nil {
		return function.Name.Name
	}
	on := function.Recv.List[0].Type
	if pointer, ok := on.(*ast.StarExpr); ok {
		on = pointer.X
	}
	if generic, ok := on.(*ast.IndexExpr); ok {
		on = generic.X
	}
	return fmt.Sprintf("%s.%s", on, function.Name.Name)
}

// TestStops keeps the search honest.
func TestStops(t *testing.T) {
	const own = "test/docs/stops_test.go"
	declared := declaredIn(t, own)
	if !declared["functionName"] || declared["nobody"] {
		t.Errorf("%s declares %v", own, declared)
	}
	if known := declaredIn(t, "test/docs/book_test.go"); !known["row.last"] || !known["row"] || known["last"] {
		t.Errorf("a method is found as Type.method alone, a type by its name: %v", known)
	}
	if len(declaredIn(t, "test/docs/gone.go")) > 0 {
		t.Error("a file that does not exist declares something")
	}
	if match := stop.FindStringSubmatch("see `internal/host/choose.go: Choose`, which"); match == nil || match[1] != "internal/host/choose.go" || match[2] != "Choose" {
		t.Errorf("a stop is read as %q", match)
	}
}
