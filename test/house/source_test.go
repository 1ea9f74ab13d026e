package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// source is one parsed file of ours that is not a test's.
type source struct {
	// path is the file's, below the root.
	path string
	*ast.File
}

// folder is the file's, below the root.
func (s source) folder() string { return filepath.ToSlash(filepath.Dir(s.path)) }

// functions are the functions and methods declared in the file.
func (s source) functions() []*ast.FuncDecl {
	var found []*ast.FuncDecl
	for _, declaration := range s.Decls {
		if function, ok := declaration.(*ast.FuncDecl); ok {
			found = append(found, function)
		}
	}
	return found
}

// sources parses what is not tested but shipped below the folders, for every
// system: build tags do not hide a file.
func sources(t *testing.T, folders ...string) []source {
	t.Helper()
	root := filepath.Join("..", "..")
	var found []source
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(file string, _ fs.DirEntry, err error) error {
			if err != nil || !shipped(file) {
				return err
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			below, err := filepath.Rel(root, file)
			found = append(found, source{path: filepath.ToSlash(below), File: parsed})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// shipped says whether a file is Go and neither a test's nor generated.
func shipped(file string) bool {
	name := filepath.Base(file)
	return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "zz_generated.")
}

// receiver names the type that a method hangs on; empty for a function.
func receiver(function *ast.FuncDecl) string {
	if function.Recv == nil || len(function.Recv.List) == 0 {
		return ""
	}
	on := function.Recv.List[0].Type
	for {
		switch of := on.(type) {
		case *ast.StarExpr:
			on = of.X
		case *ast.IndexExpr:
			on = of.X
		case *ast.IndexListExpr:
			on = of.X
		case *ast.Ident:
			return of.Name
		default:
			return ""
		}
	}
}
