package api

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// recipe finds the patches that the operator's page tells people to type.
var recipe = regexp.MustCompile(`kubectl (?:-n "\$NS" )?patch (sash|scalewayapplesiliconmachine) .*--type=merge -p (?:'([^']*)'|"((?:[^"\\]|\\.|\$\([^)]*\))*)")`)

// asTyped is the patch that a shell makes of the page's text.
func asTyped(single, double, token string) string {
	if double == "" {
		return single
	}
	text := strings.ReplaceAll(double, `\"`, `"`)
	text = strings.ReplaceAll(text, "$TOKEN", token)
	return regexp.MustCompile(`\$\(date -u \+%FT%T\.000000Z\)`).ReplaceAllString(text, time.Now().UTC().Format("2006-01-02T15:04:05")+".000000Z")
}

// TestTheRecipesAreAccepted types each patch of the operator's page on a host that
// it is meant for; a field that does not exist is an error.
func TestTheRecipesAreAccepted(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operate", "hosts.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := recipe.FindAllStringSubmatch(string(page), -1)
	if len(found) < 8 {
		t.Fatalf("only %d patches found on the page", len(found))
	}
	for _, match := range found {
		patch := asTyped(match[2], match[3], "the-token")
		if !json.Valid([]byte(patch)) {
			t.Errorf("%s is no JSON", patch)
			continue
		}
		t.Run(patch, func(t *testing.T) {
			if match[1] == "sash" {
				typeOnAHost(t, patch)
			} else {
				typeOnAMachine(t, patch)
			}
		})
	}
}

func typeOnAHost(t *testing.T, patch string) {
	t.Helper()
	h := recipeHost(patch)
	if err := api.Create(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	before := h.Generation
	strict := client.WithFieldValidation(api, metav1.FieldValidationStrict)
	if err := strict.Patch(t.Context(), h, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
	if h.Generation == before {
		t.Error("the patch changes nothing")
	}
}

func typeOnAMachine(t *testing.T, patch string) {
	t.Helper()
	m := newMachine()
	if err := api.Create(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	m.Status.ServerID = "11111111-1111-4111-8111-111111111111"
	if err := api.Status().Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if err := api.Status().Patch(t.Context(), m, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
	if m.Status.ServerID != "" {
		t.Error("the server id is still there")
	}
}

// recipeHost is a host in the state that a patch is for.
func recipeHost(patch string) *infrav1.ScalewayAppleSiliconHost {
	h := newHost()
	h.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: "default", Name: "m", Token: "the-token"}
	if strings.Contains(patch, "null") {
		h.Spec.Maintenance = &infrav1.Maintenance{Reason: "r"}
		h.Spec.Quarantine = &infrav1.Quarantine{Reason: "r"}
		h.Spec.Adopt = &infrav1.Adoption{PoolPrefix: "tuist-pool-"}
	}
	if strings.Contains(patch, `"Terminate"`) {
		h.Spec.Release = &infrav1.Release{Token: "the-token", Policy: infrav1.Recycle, PoolPrefix: "tuist-pool-", RequestedAt: metav1.NowMicro()}
	}
	return h
}
