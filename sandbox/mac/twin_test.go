package mac

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const twinSource = `package main

import (
	"fmt"
	"os"
	"runtime"
)

func main() {
	fmt.Println(runtime.GOOS, os.Getuid(), os.Args)
	if said := os.Getenv("SAID"); said != "" {
		fmt.Println(said)
	}
	if len(os.Args) > 1 && os.Args[1] == "run" {
		os.WriteFile("/Users/m1/proof", []byte(fmt.Sprint(os.Getuid())), 0o644)
		select {}
	}
}
`

// twins builds one program for a Mac and for here.
func twins(t *testing.T) (darwin []byte, linux string) {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte(twinSource), 0o644); err != nil {
		t.Fatal(err)
	}
	linux = filepath.Join(dir, "linux")
	if err := goBuild("linux", "", linux, source); err != nil {
		t.Fatal(err)
	}
	if err := goBuild("darwin", "arm64", filepath.Join(dir, "darwin"), source); err != nil {
		t.Fatal(err)
	}
	darwin, err := os.ReadFile(filepath.Join(dir, "darwin"))
	if err != nil {
		t.Fatal(err)
	}
	return darwin, linux
}

func TestDarwinProgramsRunAsTheirTwins(t *testing.T) {
	darwin, linux := twins(t)
	b := startBench(t, func(o *Options) {
		o.Twins = map[string]string{fmt.Sprintf("%x", sha256.Sum256(darwin)): linux}
	})
	b.grant()
	if got := b.sh("mkdir -p .stage; cat >.stage/agent && chmod 0700 .stage/agent && sudo -n .stage/agent a b", string(darwin)); got.rc != 0 || got.out != "linux 0 [.stage/agent a b]\n" {
		t.Errorf("by sudo: %+v", got)
	}
	if got := b.sh("SAID=first env SAID=last .stage/agent a", ""); got.rc != 0 || got.out != "linux 501 [.stage/agent a]\nlast\n" {
		t.Errorf("by env: %+v", got)
	}
	b.daemon("", "")
	plist := strings.NewReplacer("<string>/bin/sh</string><string>-c</string><string></string>", "<string>/Library/agent</string><string>run</string>").
		Replace(plist("", keepAlive))
	if err := os.WriteFile(filepath.Join(b.Root(), plistPath), []byte(plist), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := b.root("cp .stage/agent /Library/agent && launchctl bootstrap system " + plistPath); got.rc != 0 {
		t.Fatalf("bootstrap: %+v", got)
	}
	await(t, "launchd to run the twin as the user", func() bool { return b.sh("cat proof", "").out == "501" })

	if u := b.Unmodelled(); len(u) != 0 {
		t.Errorf("unmodelled: %+v", u)
	}
	got := b.sh("cp .stage/agent other; echo >>other; sudo -n ./other", "")
	if got.rc != 126 || !strings.Contains(got.err, "Bad CPU type in executable") || len(b.Unmodelled()) != 1 {
		t.Errorf("an unknown program: %+v, unmodelled %+v", got, b.Unmodelled())
	}
}
