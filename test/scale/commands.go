package main

import (
	"bufio"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// Exit codes of a shell.
const (
	exitFailed   = 1
	exitNotFound = 127
)

// run does what a Mac does with a command of stage 0 or of the agent. The snippets are known by what they
// alone say.
func (s *standIn) run(command string, channel ssh.Channel) int {
	words := strings.Fields(command)
	switch {
	case len(words) >= 4 && words[0] == "sudo" && words[1] == "-n":
		return s.agent(words[2], words[3], words[4:], channel)
	case strings.Contains(command, "macfleet-grant"):
		return s.grant(channel)
	case strings.Contains(command, `"receive %s\n"`):
		return s.receive(channel)
	case strings.Contains(command, "say probe 1"):
		return s.probe(channel)
	}
	s.fleet.complain("server %s does not know the command %.80q", s.server, command)
	return exitNotFound
}

// probe says what the Mac is.
func (s *standIn) probe(out io.Writer) int {
	s.mu.Lock()
	now := s.disk
	s.mu.Unlock()
	lines := []string{
		"probe 1", "os 26.0", "build 25A354", "arch arm64", "hw.model Mac14,12", "hw.memsize 17179869184", "hw.ncpu 8",
		"kern.bootsessionuuid " + now.boot, "kern.hv_vmm_present 0",
		fmt.Sprintf(`ioreg "IOPlatformSerialNumber" = "SIM%.8s"`, s.server), fmt.Sprintf(`ioreg "IOPlatformUUID" = "%s"`, strings.ToUpper(s.server)),
		"disk /dev/disk3s5 482797652 40000000 400000000 10% 1 1 0% /System/Volumes/Data",
		"filevault FileVault is Off.", "console m1", "user m1", "client 127.0.0.1",
	}
	if now.installed != "" {
		lines = append(lines, "current "+path.Join(document.InstallDir, now.installed), "slot "+path.Join(document.InstallDir, now.installed, "tart-kubelet"))
	}
	switch {
	case now.installed != "":
		lines = append(lines, "sudo agent")
	case now.granted:
		lines = append(lines, "sudo yes")
	}
	_, _ = fmt.Fprintln(out, strings.Join(append(lines, "end 1"), "\n"))
	return 0
}

// grant takes the password that the vendor tells, once.
func (s *standIn) grant(channel io.ReadWriter) int {
	line, _ := bufio.NewReader(channel).ReadString('\n') // what there is counts
	if strings.TrimSuffix(line, "\n") != s.password {
		s.fleet.complain("server %s was offered a password that is not its own", s.server)
		_, _ = fmt.Fprintln(channel, "grant rejected")
		return 0
	}
	s.mu.Lock()
	s.disk.granted = true
	s.mu.Unlock()
	_, _ = fmt.Fprintln(channel, "grant granted")
	return 0
}

// receive takes a build, of which it keeps the name alone.
func (s *standIn) receive(channel io.ReadWriter) int {
	in := bufio.NewReader(channel)
	var build, packed string
	var size int64
	if _, err := fmt.Fscanln(in, &build, &packed, &size); err != nil {
		_, _ = fmt.Fprintln(channel, "receive failed")
		return 0
	}
	s.mu.Lock()
	there := s.disk.staged == build
	s.mu.Unlock()
	if !there {
		_, _ = fmt.Fprintln(channel, "have 0")
		if _, err := io.CopyN(io.Discard, in, size); err != nil {
			_, _ = fmt.Fprintln(channel, "receive short")
			return 0
		}
		s.mu.Lock()
		s.disk.staged = build
		s.mu.Unlock()
	}
	_, _ = fmt.Fprintln(channel, "receive staged")
	return 0
}

// agent runs a verb of the agent's as root, where there is such a build.
func (s *standIn) agent(program, verb string, flags []string, channel ssh.Channel) int {
	if !s.has(program) {
		_, _ = fmt.Fprintf(channel.Stderr(), "sudo: %s: command not found\n", program)
		return exitFailed
	}
	began := time.Now()
	report := document.Report{Verb: verb, Started: began.UTC(), Exit: document.ExitUnchanged}
	if slices.Contains(flags, "--plan") {
		_, _ = io.Copy(io.Discard, channel)
		return s.tell(channel, report) // as it should be
	}
	told, err := document.DecodeSigned(channel)
	if err != nil {
		s.fleet.complain("server %s was told what it cannot read: %v", s.server, err)
		return document.ExitUsage
	}
	report.Epoch, report.Exit = told.Epoch, document.ExitChanged
	if why, counter := s.take(told, verb); why != "" {
		report.Exit, report.Counter = document.Human.Exit(), counter
		report.Steps = []document.StepReport{{Name: "signature", Outcome: document.Failed, Class: document.Human, Detail: why}}
		return s.tell(channel, report)
	}
	if verb == document.VerbConverge {
		report.Build, report.Revision = told.Desired.Agent.SHA256, document.Revision(*told.Desired)
		if err := s.become(*told.Desired); err != nil {
			report.Exit = document.Retry.Exit()
			report.Steps = []document.StepReport{{Name: "launchd", Outcome: document.Failed, Class: document.Retry, Detail: err.Error()}}
			return s.tell(channel, report)
		}
	}
	report.Steps = []document.StepReport{{Name: "launchd", Outcome: document.Changed, Millis: time.Since(began).Milliseconds()}}
	return s.tell(channel, report)
}

// has reports whether there is such a program.
func (s *standIn) has(program string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if program == document.CurrentAgent || program == document.NextAgent {
		return s.disk.installed != ""
	}
	return s.disk.staged != "" && program == document.StagingDir+"/"+s.disk.staged
}

func (s *standIn) tell(out io.Writer, report document.Report) int {
	s.mu.Lock()
	report.BootSession = s.disk.boot
	s.mu.Unlock()
	report.Finished = time.Now().UTC()
	line, err := document.EncodeReport(report)
	if err != nil {
		s.fleet.complain("server %s: %v", s.server, err)
		return document.ExitBug
	}
	_, _ = out.Write(append(line, '\n'))
	return report.Exit
}

// take judges an instruction, and says why it is refused, with the counter that it should be above. Whoever
// tells a Mac to be another Machine's than it is has not had it wiped between.
func (s *standIn) take(told document.Received, verb string) (why string, counter int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if want := "scw-applesilicon://" + s.zone + "/" + s.server; told.ProviderID != want || told.Verb != verb {
		s.fleet.complain("server %s was told to %s as %s", s.server, told.Verb, told.ProviderID)
		return "it is for another Mac", 0
	}
	key := s.disk.key
	if key == nil && told.Desired != nil {
		key = ed25519.PublicKey(told.Desired.UpgradeKey)
	}
	switch {
	case !told.SignedBy(key):
		s.fleet.complain("server %s was told to %s by somebody else than its fleet", s.server, verb)
		return "is not signed by this fleet's key", 0
	case told.Counter <= s.disk.counter:
		return "was told before", s.disk.counter
	case s.disk.owner != "" && s.disk.owner != told.Name:
		s.fleet.complain("server %s went from %s to %s without a wipe", s.server, s.disk.owner, told.Name)
		return "the disk is that of " + s.disk.owner, 0
	}
	s.disk.key, s.disk.counter, s.disk.owner = key, told.Counter, told.Name
	return "", 0
}

var errEnded = errors.New("the Mac was erased meanwhile")

// become takes its time, and lets the agent join where it may.
func (s *standIn) become(want document.Desired) error {
	timer := time.NewTimer(s.fleet.converge/2 + rand.N(s.fleet.converge+1))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.ended:
		return errEnded
	}
	s.mu.Lock()
	s.disk.installed = want.Agent.SHA256
	s.mu.Unlock()
	if want.Join != nil {
		s.wait.Go(func() { s.joins(want) })
	}
	s.fleet.hasConverged()
	return nil
}
