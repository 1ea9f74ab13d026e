// Package act is what a person does to a fleet by hand: the recipes of docs/operate. A plan
// says what will be done to whom before anything is; making one is pure, and Run carries it
// out. What cannot be done is refused with what can.
package act

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Plan is what will be done.
type Plan struct {
	// Says what will be done to whom, and what comes of it, a sentence each.
	Says []string
	// Guests says which Pods run on the Mac and what becomes of them; empty: that is no
	// question. Ends are those that end.
	Guests string
	Ends   []string
	Steps  []Step
}

// Lines are what is to be said before anybody is asked.
func (p Plan) Lines() []string {
	if p.Guests == "" {
		return p.Says
	}
	return append(slices.Clone(p.Says), p.Guests)
}

// Step is one request: a merge patch, or a deletion.
type Step struct {
	Object client.Object
	// Patch without the lock, which Run adds; nil: the object is deleted.
	Patch map[string]any
	// Status: the patch is of the status.
	Status bool
	// Secret: nobody is shown the patch.
	Secret bool
}

func (p *Plan) say(format string, values ...any) {
	p.Says = append(p.Says, fmt.Sprintf(format, values...))
}

func (p *Plan) patch(object client.Object, patch map[string]any) {
	p.Steps = append(p.Steps, Step{Object: object, Patch: patch})
}

// secret is a patch that nobody is shown.
func (p *Plan) secret(object client.Object, patch map[string]any) {
	p.Steps = append(p.Steps, Step{Object: object, Patch: patch, Secret: true})
}

func (p *Plan) delete(object client.Object) { p.Steps = append(p.Steps, Step{Object: object}) }

func spec(fields map[string]any) map[string]any { return map[string]any{"spec": fields} }

func annotation(key, value string) map[string]any {
	return map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}}
}

// body is the patch that is sent. With the lock it holds only for the object as it was
// looked at.
func (s Step) body(lock bool) ([]byte, error) {
	patch := maps.Clone(s.Patch)
	if lock {
		meta := map[string]any{"resourceVersion": s.Object.GetResourceVersion()}
		if inputs, is := patch["metadata"].(map[string]any); is {
			maps.Copy(meta, inputs)
		}
		patch["metadata"] = meta
	}
	text, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("writing the patch: %w", err)
	}
	return text, nil
}

// since is a time of a record as it is said.
func since(at *metav1.MicroTime) string {
	if at == nil {
		return "some time ago"
	}
	return "at " + at.UTC().Format("2006-01-02T15:04:05Z")
}
