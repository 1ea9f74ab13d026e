package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/explain"
	clireasons "github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

func TestEachReasonIsExplained(t *testing.T) {
	var text strings.Builder
	for path, page := range pages(t) {
		if !strings.Contains(path, string(filepath.Separator)+"adr"+string(filepath.Separator)) {
			text.WriteString(page)
		}
	}
	declared := reasons(t)
	for _, reason := range slices.Sorted(maps.Keys(declared)) {
		if !strings.Contains(text.String(), "`"+reason+"`") {
			t.Errorf("%s: no page explains `%s`: what it means, and what to do", declared[reason], reason)
		}
	}
}

// macfleet explain reads the page of reasons: a reason that is only mentioned has no answer.
func TestEachReasonHasAnAnswer(t *testing.T) {
	book := clireasons.Read()
	declared := reasons(t)
	for _, reason := range slices.Sorted(maps.Keys(declared)) {
		if answer, found := book.Any(reason); !found || answer.Means == "" {
			t.Errorf("%s: no table of docs/operate/reasons.md has a row for `%s`, so explain has no answer", declared[reason], reason)
		}
		if got := told(book, reason); got.Means == "" || got.Next == "" && got.You == "" || !strings.HasPrefix(got.Read, "https://") {
			t.Errorf("%s: explain says of a Machine with `%s`: %+v", declared[reason], reason, got)
		}
	}
}

// told is what explain says of a Machine that has a condition False for a reason.
func told(book clireasons.Book, reason string) explain.Point {
	m := clitest.Machine(1, "Pending", clitest.Condition(infrav1.HostClaimedCondition, metav1.ConditionFalse, reason, "", time.Minute))
	story := explain.Machine(&snapshot.Snapshot{At: clitest.Now()}, book, &m)
	at := slices.IndexFunc(story.Points, func(p explain.Point) bool { return p.Condition != "" && p.Reason == reason })
	if at < 0 {
		return explain.Point{}
	}
	return story.Points[at]
}

// declaring are the packages whose constants Reason… or reason… end up in conditions.
var declaring = []string{"api", "internal/host", "internal/controller"}

// reasons are the values of those constants, each with a constant's name.
func reasons(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, dir := range declaring {
		walk(t, filepath.Join(root, dir), func(path, text string) {
			parsed, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(node ast.Node) bool {
				if spec, is := node.(*ast.ValueSpec); is {
					maps.Copy(found, reasonsOf(spec))
				}
				return true
			})
		}, ".go")
	}
	if len(found) < 50 {
		t.Fatalf("only %d reasons found: the search is broken", len(found))
	}
	return found
}

// reasonsOf are those that one declaration spells out.
func reasonsOf(spec *ast.ValueSpec) map[string]string {
	found := map[string]string{}
	for i, name := range spec.Names {
		isReason := strings.HasPrefix(name.Name, "Reason") || strings.HasPrefix(name.Name, "reason")
		if !isReason || i >= len(spec.Values) {
			continue
		}
		if literal, is := spec.Values[i].(*ast.BasicLit); is && literal.Kind == token.STRING {
			reason, _ := strconv.Unquote(literal.Value) // the parser has read it
			found[reason] = name.Name
		}
	}
	return found
}
