package house

import (
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"testing"
)

// mostMethods is what a reader can still know of one type: every method reaches
// every field, so whoever reads one has to know what all of them do to it.
const mostMethods = 40

func TestReceiversAreSmall(t *testing.T) {
	for _, complaint := range tooLarge(methodsOf(sources(t, "internal", "cmd", "sandbox"))) {
		t.Error(complaint)
	}
}

// methodsOf counts the methods of each type, as folder.Type.
func methodsOf(files []source) map[string]int {
	count := map[string]int{}
	for _, file := range files {
		for _, function := range file.functions() {
			if on := receiver(function); on != "" {
				count[file.folder()+"."+on]++
			}
		}
	}
	return count
}

// tooLarge says in one sentence each which types have too many methods.
func tooLarge(methods map[string]int) []string {
	var complaints []string
	for _, on := range slices.Sorted(maps.Keys(methods)) {
		if methods[on] > mostMethods {
			complaints = append(complaints, fmt.Sprintf("%s has %d methods, at most %d may be: give a part of its fields and methods a type of its own", on, methods[on], mostMethods))
		}
	}
	return complaints
}

func TestMethodsAreCountedOfEveryKindOfReceiver(t *testing.T) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x
func (T) a() {}
func (t *T) b() {}
func (t *T[K]) c() {}
func (t T[K, V]) d() {}
func e() {}`, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := methodsOf([]source{{path: "internal/x/x.go", File: parsed}}); len(got) != 1 || got["internal/x.T"] != 4 {
		t.Errorf("methods = %v, want 4 on internal/x.T alone", got)
	}
	if got := tooLarge(map[string]int{"a.Fits": mostMethods, "a.Large": mostMethods + 1}); len(got) != 1 {
		t.Errorf("complaints = %q, want one, of a.Large", got)
	}
}
