package cloud_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/internal/cloud"
)

func TestRequirement003_WhatIsNoPasswordIsNone(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "  \n": "",
		"<sealed>": "", " <sealed> ": "", "<SEALED>": "", "<redacted>": "", "m1:<sealed>": "", "<sealed>\n": "",
		"abcDEF123456": "abcDEF123456", " abcDEF123456\n": "abcDEF123456", "p<q>r&s/t@u": "p<q>r&s/t@u", "größe": "größe",
		"abc DEF": "", "abc\tDEF": "", "abc\nDEF": "", "abc\u00a0DEF": "", "abc\x00DEF": "", "abc\x1b[31m": "", "abc\x7f": "", "abc\u200bDEF": "", "abc\xff": "",
		strings.Repeat("x", 128): strings.Repeat("x", 128), strings.Repeat("x", 129): "",
	} {
		got, ok := cloud.NewPassword(text)
		if got.Reveal() != want || ok != (want != "") || got.Present() != ok {
			t.Errorf("NewPassword(%q): usable %v as %q, want %q", text, ok, got.Reveal(), want)
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
