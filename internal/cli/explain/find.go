package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// UnknownError is a name that nothing has, or more than one.
type UnknownError struct {
	Kind, Name string
	// Namespace is the one that was looked in, where it was but one.
	Namespace string
	// Among are the objects that have it, and Nearest the names that are like it.
	Among, Nearest []string
}

func (e UnknownError) Error() string {
	in := ""
	if e.Namespace != "" {
		in = fmt.Sprintf(" in the namespace %s, which -n chooses", e.Namespace)
	}
	switch {
	case len(e.Among) > 0:
		return fmt.Sprintf("%s %s is one of several: %s: write more of it, or name the namespace with -n", e.Kind, e.Name, strings.Join(e.Among, ", "))
	case len(e.Nearest) > 0:
		return fmt.Sprintf("there is no %s %s%s; did you mean %s?", e.Kind, e.Name, in, strings.Join(e.Nearest, ", or "))
	}
	return fmt.Sprintf("there is no %s %s%s", e.Kind, e.Name, in)
}

// FindHost finds a host by its name, its server's name or id, or, unless it must be
// exact, by the beginning of one of these.
func FindHost(hosts []infrav1.ScalewayAppleSiliconHost, name string, exact bool) (*infrav1.ScalewayAppleSiliconHost, error) {
	return find1(hosts, "host", name, exact, func(h *infrav1.ScalewayAppleSiliconHost) []string {
		return []string{h.Name, h.Status.Server.Name, h.Spec.ServerID}
	})
}

// Find finds an object by its name, [namespace/]name, or by the beginning of it.
func Find[T any, P interface {
	*T
	client.Object
}](objects []T, kind, name string) (P, error) {
	return find1(objects, kind, name, false, namesOf[T, P])
}

// FindExactly finds an object by its whole name, for who is about to change it.
func FindExactly[T any, P interface {
	*T
	client.Object
}](objects []T, kind, name string) (P, error) {
	return find1(objects, kind, name, true, namesOf[T, P])
}

func namesOf[T any, P interface {
	*T
	client.Object
}](o *T) []string {
	object := P(o)
	return []string{object.GetName(), object.GetNamespace() + "/" + object.GetName()}
}

// find1 finds the one object that has the name, or begins with it.
func find1[T any](objects []T, kind, name string, exact bool, names func(*T) []string) (*T, error) {
	var equal, begin []*T
	for i := range objects {
		of := names(&objects[i])
		switch {
		case slices.Contains(of, name):
			equal = append(equal, &objects[i])
		case !exact && name != "" && slices.ContainsFunc(of, func(n string) bool { return strings.HasPrefix(n, name) }):
			begin = append(begin, &objects[i])
		}
	}
	if len(equal) == 0 {
		equal = begin
	}
	if len(equal) == 1 {
		return equal[0], nil
	}
	unknown := UnknownError{Kind: kind, Name: name}
	for _, o := range equal {
		of := names(o)
		unknown.Among = append(unknown.Among, of[len(of)-1])
		if kind == "host" {
			unknown.Among[len(unknown.Among)-1] = of[0]
		}
	}
	unknown.Among = unknown.Among[:min(len(unknown.Among), suggestions)]
	if len(equal) == 0 {
		unknown.Nearest = nearest(objects, name, names)
	}
	return nil, unknown
}

const (
	// suggestions are as many as can be read in a line.
	suggestions = 3
	// alike is how many letters may differ in a name that is suggested.
	alike = 4
)

func nearest[T any](objects []T, name string, names func(*T) []string) []string {
	type like struct {
		name     string
		distance int
	}
	var found []like
	for i := range objects {
		of := names(&objects[i])
		best := like{of[0], distance(of[0], name)}
		for _, n := range of {
			if n != "" && (strings.Contains(n, name) || strings.Contains(name, n)) {
				best.distance = min(best.distance, 1)
			}
			best.distance = min(best.distance, distance(n, name))
		}
		if best.distance <= alike {
			found = append(found, best)
		}
	}
	slices.SortFunc(found, func(a, b like) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name))
	})
	var words []string
	for _, f := range found[:min(len(found), suggestions)] {
		words = append(words, f.name)
	}
	return words
}

// distance is how many letters have to be changed, added or taken away.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := before
			if a[i-1] != b[j-1] {
				change++
			}
			before = row[j]
			row[j] = min(change, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
