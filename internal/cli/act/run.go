package act

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/internal/cli/cluster"
)

// attempts bounds how often a plan is made anew because its objects changed meanwhile,
// as a Host does with each reading of its server.
const attempts = 5

// Run carries out what was agreed to. Where an object changed meanwhile the plan is made
// anew, and carried out only if it still says the same; where Pods may end by it, before
// anything else too, for a Pod that comes changes none of these objects. Of several steps
// the API server is asked first whether it would take each. dry: it is only asked.
func Run(ctx context.Context, c client.Client, agreed Plan, dry bool, again func(context.Context) (Plan, error)) error {
	var err error
	plan := agreed
	if agreed.Guests != "" {
		plan, err = agreed.anew(ctx, again)
	}
	for attempt := 1; err == nil; attempt++ {
		var done int
		var failure error
		if dry || len(plan.Steps) > 1 {
			_, failure = plan.run(ctx, c, true)
		}
		if failure == nil && !dry {
			done, failure = plan.run(ctx, c, false)
		}
		if failure == nil {
			return nil
		}
		if !apierrors.IsConflict(failure) || done > 0 || attempt == attempts {
			return failed(plan.Steps[:done], failure)
		}
		plan, err = agreed.anew(ctx, again)
	}
	return fmt.Errorf("nothing is changed: %w", err)
}

// anew is the plan made of what is there now: an error unless it is what was agreed to.
func (p Plan) anew(ctx context.Context, again func(context.Context) (Plan, error)) (Plan, error) {
	plan, err := again(ctx)
	if err != nil {
		return Plan{}, err
	}
	if !slices.Equal(plan.Says, p.Says) || !slices.EqualFunc(plan.Steps, p.Steps, Step.same) {
		return Plan{}, errors.New("somebody changed it meanwhile, and this would now do something else: look again")
	}
	if came := plan.came(p); len(came) > 0 {
		return Plan{}, fmt.Errorf("meanwhile Pods came to the Mac, and would end: %s: look again", named(came))
	}
	return plan, nil
}

// same says whether two steps do the same to the same object, whatever else has changed in it.
func (s Step) same(other Step) bool {
	return s.Object.GetUID() == other.Object.GetUID() && s.Status == other.Status && reflect.DeepEqual(s.Patch, other.Patch)
}

// run carries out the steps, and returns how many of them were. The first patch of an
// object is locked to what was looked at; those that follow it are not, for it changed.
func (p Plan) run(ctx context.Context, c client.Client, dry bool) (int, error) {
	patched := map[client.Object]bool{}
	for i, step := range p.Steps {
		if err := step.run(ctx, c, dry, !patched[step.Object]); err != nil {
			return i, err
		}
		patched[step.Object] = true
	}
	return len(p.Steps), nil
}

func (s Step) run(ctx context.Context, c client.Client, dry, lock bool) error {
	if s.Patch == nil {
		var options []client.DeleteOption
		if dry {
			options = append(options, client.DryRunAll)
		}
		uid := s.Object.GetUID()
		return c.Delete(ctx, s.Object, append(options, client.Preconditions{UID: &uid})...)
	}
	body, err := s.body(lock)
	if err != nil {
		return err
	}
	object := s.Object.DeepCopyObject().(client.Object) // the answer overwrites it
	patch := client.RawPatch(types.MergePatchType, body)
	switch {
	case s.Status && dry:
		return c.Status().Patch(ctx, object, patch, client.DryRunAll)
	case s.Status:
		return c.Status().Patch(ctx, object, patch)
	case dry:
		return c.Patch(ctx, object, patch, client.DryRunAll)
	}
	return c.Patch(ctx, object, patch)
}

// PartlyError is a plan that ended in the middle: what is done stays, and whoever asked for it
// has to know, however they ended it.
type PartlyError struct {
	// Done are the changes that were made, as they were sent, each with its object.
	Done []string
	Err  error
}

func (e PartlyError) Error() string {
	return fmt.Sprintf("not all of it is done: %v. Done, and to be taken back by hand where it is not wanted: %s", e.Err, strings.Join(e.Done, ", "))
}

func (e PartlyError) Unwrap() error { return e.Err }

// failed says what is done already and stays.
func failed(done []Step, err error) error {
	if fatal := cluster.Fatal(err); fatal != nil {
		err = fatal
	} else if apierrors.IsForbidden(err) {
		err = fmt.Errorf("you may not do this: ask for the right, as of the roles in docs/install.md, Who may do what: %w", err)
	}
	if len(done) == 0 {
		return err
	}
	partly := PartlyError{Err: err}
	for _, step := range done {
		partly.Done = append(partly.Done, step.did())
	}
	return partly
}

// did is what a step did, for people.
func (s Step) did() string {
	of := client.ObjectKeyFromObject(s.Object)
	body, err := s.body(false)
	switch {
	case s.Patch == nil:
		return fmt.Sprintf("the deletion of %s", of)
	case s.Secret || err != nil:
		return fmt.Sprintf("a change of %s", of)
	}
	return fmt.Sprintf("%s of %s", body, of)
}
