package main

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Somebody deleted the CRDs: nothing is left, and what cannot be read is no such answer.
func TestNothingIsLeftWhereTheKindsAreGone(t *testing.T) {
	answer := error(&meta.NoKindMatchError{})
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return answer },
	}).Build()
	if left, err := lookAtWhatIsLeft(t.Context(), c, "ns"); err != nil || !left.Nothing() {
		t.Errorf("%+v, %v", left, err)
	}
	answer = errors.New("the API server is away")
	if _, err := lookAtWhatIsLeft(t.Context(), c, "ns"); !errors.Is(err, answer) {
		t.Errorf("%v: want %v", err, answer)
	}
}
