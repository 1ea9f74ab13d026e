package env_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/env"
)

func TestStaticKnowsWhatTheContainerSpells(t *testing.T) {
	vars := []corev1.EnvVar{
		{Name: "PORT", Value: "8080"},
		{Name: "NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
	}
	got, err := env.Static([]string{"curl", "localhost:$(PORT)", "[$(NAME)]", "$(OTHER)", "$$(PORT)"}, vars)
	if want := []string{"curl", "localhost:8080", "[]", "$(OTHER)", "$(PORT)"}; !slices.Equal(got, want) || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
