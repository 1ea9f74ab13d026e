package api

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// recipe finds the patches that the operator's pages tell people to type, and
// annotation what they write on infra machines beside those.
var (
	recipe     = regexp.MustCompile(`kubectl (?:-n \S+ )?patch (sash|samm|scalewayapplesiliconmachine) .*--type=merge +-p (?:'([^']*)'|"((?:[^"\\]|\\.|\$\([^)]*\))*)")`)
	annotation = regexp.MustCompile(`kubectl (?:-n \S+ )?annotate (?:samm|scalewayapplesiliconmachine) \S+ ([^\n\x60]*)`)
)

// recipePages are those that tell people to write our kinds.
var recipePages = []string{"hosts.md", "macs.md", "health-checks.md"}

// recipeText is the text of a page, each command in one line.
func recipeText(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "operate", page))
	must(t, err)
	return strings.ReplaceAll(string(text), "\\\n", " ")
}

// asTyped is the patch that a shell makes of the page's text.
func asTyped(single, double, token string) string {
	if double == "" {
		return single
	}
	text := strings.ReplaceAll(double, `\"`, `"`)
	text = strings.NewReplacer("$TOKEN", token, "$(date +%s)", "1764370000").Replace(text)
	return regexp.MustCompile(`\$\(date -u \+%FT%T\.000000Z\)`).ReplaceAllString(text, time.Now().UTC().Format("2006-01-02T15:04:05")+".000000Z")
}

// TestTheRecipesAreAccepted types each patch of the operator's pages on an object that
// it is meant for, as a cluster administrator and in the role that is shipped for it,
// past the shipped policies; a field that does not exist is an error.
func TestTheRecipesAreAccepted(t *testing.T) {
	seen := 0
	for _, page := range recipePages {
		for _, match := range recipe.FindAllStringSubmatch(recipeText(t, page), -1) {
			seen++
			patch := asTyped(match[2], match[3], "the-token")
			if !json.Valid([]byte(patch)) {
				t.Errorf("%s is no JSON", patch)
				continue
			}
			for _, who := range []string{clusterAdmin, hostOperator} {
				t.Run(patch+" by "+who, func(t *testing.T) {
					if match[1] == "sash" {
						typeOnAHost(t, who, patch)
					} else {
						typeOnAMachine(t, who, patch)
					}
				})
			}
		}
	}
	if seen < 12 {
		t.Fatalf("only %d patches found on the pages", seen)
	}
}

// TestTheRecipesAreRefusedToFleetAuthors: hosts are not theirs, and who has all rights
// in a namespace is told by admission whose the status is.
func TestTheRecipesAreRefusedToFleetAuthors(t *testing.T) {
	for _, page := range recipePages {
		for _, match := range recipe.FindAllStringSubmatch(recipeText(t, page), -1) {
			patch := []byte(asTyped(match[2], match[3], "the-token"))
			for _, who := range []string{fleetAuthor, namespaceAdmin} {
				t.Run(string(patch)+" by "+who, func(t *testing.T) {
					if match[1] == "sash" {
						h := recipeHost(string(patch))
						must(t, api.Create(t.Context(), h))
						refused(t, clients[who].Patch(t.Context(), h, client.RawPatch(types.MergePatchType, patch)), `cannot patch resource "scalewayapplesiliconhosts"`)
						return
					}
					says := saysLeave
					if who == fleetAuthor {
						says = `cannot patch resource "scalewayapplesiliconmachines/status"`
					}
					refused(t, clients[who].Status().Patch(t.Context(), recipeMachine(t), client.RawPatch(types.MergePatchType, patch)), says)
				})
			}
		}
	}
}

// TestTheAnnotationsOfTheRecipesAreForFleetAuthorsToo: what concerns one's own Machine
// alone, up to its deletion, is the author's.
func TestTheAnnotationsOfTheRecipesAreForFleetAuthorsToo(t *testing.T) {
	seen := 0
	for _, page := range recipePages {
		for _, match := range annotation.FindAllStringSubmatch(recipeText(t, page), -1) {
			seen++
			for _, who := range []string{clusterAdmin, hostOperator, fleetAuthor} {
				m := recipeMachine(t)
				for word := range strings.FieldsSeq(match[1]) {
					if key, value, found := strings.Cut(word, "="); found {
						metav1.SetMetaDataAnnotation(&m.ObjectMeta, key, strings.Trim(value, `"`))
					}
				}
				if len(m.Annotations) == 0 {
					t.Errorf("%q annotates nothing", match[0])
				}
				if err := clients[who].Update(t.Context(), m); err != nil {
					t.Errorf("%s, by %s: %v", match[0], who, err)
				}
				if err := clients[who].Delete(t.Context(), m); err != nil {
					t.Errorf("deleting it then, by %s: %v", who, err)
				}
			}
		}
	}
	if seen < 4 {
		t.Errorf("only %d annotations found on the pages", seen)
	}
}

func typeOnAHost(t *testing.T, who, patch string) {
	t.Helper()
	h := recipeHost(patch)
	must(t, api.Create(t.Context(), h))
	before := h.Generation
	strict := client.WithFieldValidation(clients[who], metav1.FieldValidationStrict)
	if err := strict.Patch(t.Context(), h, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
	if h.Generation == before {
		t.Error("the patch changes nothing")
	}
}

func typeOnAMachine(t *testing.T, who, patch string) {
	t.Helper()
	m := recipeMachine(t)
	before := m.Status.DeepCopy()
	strict := client.WithFieldValidation(clients[who], metav1.FieldValidationStrict)
	if err := strict.Status().Patch(t.Context(), m, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
	if cmp.Equal(*before, m.Status) {
		t.Error("the patch changes nothing")
	}
}

// recipeMachine has its Mac, and says so.
func recipeMachine(t *testing.T) *infrav1.ScalewayAppleSiliconMachine {
	t.Helper()
	m := provisionedMachine()
	must(t, api.Create(t.Context(), m))
	m.Status.ServerID = "11111111-1111-4111-8111-111111111111"
	m.Status.Drift.CheckedAt = ptr.To(metav1.Now())
	must(t, api.Status().Update(t.Context(), m))
	return m
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
