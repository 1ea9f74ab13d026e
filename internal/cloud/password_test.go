package cloud_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/internal/cloud"
)

func TestNewPasswordRefusesWhatIsNone(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "  \n": false, "<sealed>": false, " <sealed> ": false, "m1:<sealed>": false, "abcDEF123456": true,
	} {
		if _, got := cloud.NewPassword(text); got != want {
			t.Errorf("NewPassword(%q): usable %v, want %v", text, got, want)
		}
	}
}

func TestPasswordNeverPrintsItself(t *testing.T) {
	password, _ := cloud.NewPassword("abcDEF123456")
	encoded, err := json.Marshal(map[string]any{"p": password})
	if err != nil {
		t.Fatal(err)
	}
	credentials := cloud.Credentials{SSHUser: "m1", Password: password}
	shown := fmt.Sprintf("%s %v %+v %#v %s %+v", password, password, password, password, encoded, credentials)
	if strings.Contains(shown, "abcDEF123456") {
		t.Errorf("the password shows: %s", shown)
	}
	if password.Reveal() != "abcDEF123456" {
		t.Error("Reveal returns another text")
	}
}
