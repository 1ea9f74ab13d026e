package house

import (
	"go/ast"
	"testing"
)

// TestTheAgentKnowsItsOwnBuild holds that nothing of the agent takes the path that it was started
// by for its own file: on macOS that is a link. Linux resolves it, so that no other test notices.
func TestTheAgentKnowsItsOwnBuild(t *testing.T) {
	for _, file := range sources(t, "internal/agent", "cmd/tart-kubelet") {
		if file.path == "internal/agent/config.go" {
			continue // Build follows the links itself
		}
		ast.Inspect(file.File, func(n ast.Node) bool {
			if call, is := n.(*ast.CallExpr); is {
				if of, is := call.Fun.(*ast.SelectorExpr); is && of.Sel.Name == "Executable" {
					t.Errorf("%s calls Executable: ask ownFile, which follows links", file.path)
				}
			}
			return true
		})
	}
}
