package startup

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What `make generate` writes on each CRD.
const (
	// VersionAnnotation on a CRD is the release that it is of. Written by macfleet.
	VersionAnnotation = "macfleet.dev/crd-version"
	// DigestAnnotation on a CRD is a hash of the rest of it. Written by macfleet.
	DigestAnnotation = "macfleet.dev/crd-digest"
)

// ApplyCommand is what people type when CRDs are not of this build.
const ApplyCommand = "helm show crds <the chart of this manager> | kubectl apply --server-side --force-conflicts -f -"

// fieldManager owns what ApplyCRDs applies. Helm's own is left behind with Force.
const fieldManager = "macfleet"

// age is how a CRD of the cluster stands to this build's.
type age string

const (
	missing age = "missing"
	// foreign: nothing says that it is ours; the first system has CRDs of our names.
	foreign age = "foreign"
	older   age = "older"
	same    age = "same"
	// another: of the same release, and of another content: one of the two is no release.
	another age = "another"
	newer   age = "newer"
)

// ageOf compares by what `make generate` wrote on both; nothing is stored of a CRD that
// is missing. A version that is none is not ours.
func ageOf(stored, own map[string]string) age {
	if stored == nil {
		return missing
	}
	have, err := version.ParseSemantic(stored[VersionAnnotation])
	if err != nil {
		return foreign
	}
	want, err := version.ParseSemantic(own[VersionAnnotation])
	switch {
	case err != nil:
		return foreign
	case stored[DigestAnnotation] == own[DigestAnnotation]:
		return same // also of an older release, in which nothing changed since
	case have.LessThan(want):
		return older
	case want.LessThan(have):
		return newer
	}
	return another
}

// CheckCRDs refuses CRDs that this build does not know, or that do not know its
// fields: the API server would drop what the manager writes. Later ones are right,
// after a roll-back; their names are returned.
func CheckCRDs(ctx context.Context, reader client.Reader, own []*unstructured.Unstructured) (later []string, err error) {
	for _, crd := range own {
		stored, err := storedCRD(ctx, reader, crd.GetName())
		if err != nil {
			return nil, err
		}
		switch found := ageOf(stored, crd.GetAnnotations()); found {
		case same:
		case newer:
			later = append(later, crd.GetName())
		case missing:
			return nil, refuse("the CRD %s is missing; type: %s", crd.GetName(), ApplyCommand)
		case foreign:
			return nil, refuse("the CRD %s is not macfleet's, but another system's of the same name, or it was changed; "+
				"once that system is stopped (docs/migrate.md), type: %s", crd.GetName(), ApplyCommand)
		default:
			return nil, refuse("the CRD %s is of %s%s and this manager of %s: the API server would drop what it writes; type: %s",
				crd.GetName(), otherBuild(found), stored[VersionAnnotation], crd.GetAnnotations()[VersionAnnotation], ApplyCommand)
		}
	}
	return later, nil
}

func otherBuild(found age) string {
	if found == another {
		return "another build of "
	}
	return ""
}

// ApplyCRDs applies this build's CRDs where the cluster has older ones or none, all
// of them or, where one is foreign or newer, none. Said is told what becomes of each.
func ApplyCRDs(ctx context.Context, c client.Client, own []*unstructured.Unstructured, said func(string)) error {
	var due []*unstructured.Unstructured
	for _, crd := range own {
		stored, err := storedCRD(ctx, c, crd.GetName())
		if err != nil {
			return err
		}
		switch ageOf(stored, crd.GetAnnotations()) {
		case same:
			said(crd.GetName() + " is of this build already")
		case newer:
			return refuse("the CRD %s is of %s, newer than this build's %s: applying it would drop fields of objects that have them; nothing was applied. "+
				"Upgrade to %[2]s or later, or go back with crds.upgrade=false, and keep Argo CD (skipCrds) or Flux (upgrade.crds: Skip) from applying the chart's older ones", crd.GetName(), stored[VersionAnnotation], crd.GetAnnotations()[VersionAnnotation])
		case foreign:
			return refuse("the CRD %s is not macfleet's, but another system's of the same name, or it was changed: nothing was applied; "+
				"once that system is stopped (docs/migrate.md), type: %s", crd.GetName(), ApplyCommand)
		default:
			due = append(due, crd)
		}
	}
	for _, crd := range due {
		if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(crd.DeepCopy()), client.ForceOwnership, client.FieldOwner(fieldManager)); err != nil {
			return fmt.Errorf("applying the CRD %s: %w", crd.GetName(), err)
		}
		said(crd.GetName() + " is applied")
	}
	return nil
}

// storedCRD reads the annotations of a CRD; nil: there is none.
func storedCRD(ctx context.Context, reader client.Reader, name string) (map[string]string, error) {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	err := reader.Get(ctx, client.ObjectKey{Name: name}, crd)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the CRD %s: %w", name, err)
	}
	annotations := crd.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	return annotations, nil
}
