package launchd

import (
	"fmt"
	"strings"
	"time"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

func (l *Launchd) ctlPrint(args []string) Result {
	if len(args) != 1 {
		return unmodelled("print with other than one target")
	}
	domain, label := splitTarget(args[0])
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case domain == "system" && label == "":
		return Result{Stdout: l.domainLocked("system", "system", sortedKeys(l.jobs))}
	case domain == "system":
		if b, ok := l.builtInLocked(label); ok {
			return Result{Stdout: b.print(label)}
		}
		j, ok := l.jobs[label]
		if !ok {
			return notFound("system", label)
		}
		if _, garbled := l.faultLocked(label, wire.Unprintable); garbled {
			return Result{Stdout: "(\n  <Service 0x600003d4c2a0> " + label + "\n)\n"}
		}
		return Result{Stdout: j.print()}
	case l.sessionDomain(domain) && label == "":
		return Result{Stdout: l.domainLocked(domain, "login", nil)}
	case l.sessionDomain(domain):
		return notFound("user gui: "+fmt.Sprint(wire.UserUID), label)
	case strings.HasPrefix(domain, "gui/") || strings.HasPrefix(domain, "user/"):
		return Result{RC: codeNotFound, Stderr: fmt.Sprintf("Could not find domain for %s\n", domain)}
	}
	return Result{RC: codeUsage, Stderr: "Unrecognized target specifier.\n"}
}

// splitTarget cuts system/label and gui/501/label into domain and label.
func splitTarget(s string) (domain, label string) {
	parts := strings.Split(s, "/")
	n := 1
	if parts[0] != "system" {
		n = min(2, len(parts))
	}
	return strings.Join(parts[:n], "/"), strings.Join(parts[n:], "/")
}

func (l *Launchd) sessionDomain(domain string) bool {
	switch domain {
	case fmt.Sprintf("user/%d", wire.UserUID):
		return true
	case fmt.Sprintf("gui/%d", wire.UserUID):
		return l.console()
	}
	return false
}

func (l *Launchd) domainLocked(domain, kind string, labels []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s = {\n\ttype = %s\n\thandle = 0\n\tactive count = %d\n", domain, kind, len(labels)+1)
	switch {
	case strings.HasPrefix(domain, "gui/"):
		fmt.Fprintf(&b, "\tcreator = loginwindow[1]\n\tsession = Aqua\n\tusername = %s\n", l.user)
	case kind == "login":
		fmt.Fprintf(&b, "\tsession = Background\n\tusername = %s\n", l.user)
	default:
		b.WriteString("\tsession = System\n")
	}
	b.WriteString("\n\tservices = {\n")
	for _, label := range labels {
		j := l.jobs[label]
		fmt.Fprintf(&b, "\t\t%8d %6s \t%s\n", j.pid, j.lastColumn(), label)
	}
	b.WriteString("\t}\n\n\tdisabled services = {\n")
	for _, label := range sortedKeys(l.overrides) {
		fmt.Fprintf(&b, "\t\t%q => %s\n", label, enabledWord(l.overrides[label]))
	}
	b.WriteString("\t}\n}\n")
	return b.String()
}

func enabledWord(disabled bool) string {
	if disabled {
		return "disabled"
	}
	return "enabled"
}

func (l *Launchd) ctlPrintDisabled(args []string) Result {
	if len(args) != 1 || args[0] != "system" {
		return unmodelled("print-disabled of another domain than system")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	b.WriteString("disabled services = {\n")
	for _, label := range sortedKeys(l.overrides) {
		fmt.Fprintf(&b, "\t%q => %s\n", label, enabledWord(l.overrides[label]))
	}
	b.WriteString("}\n")
	return Result{Stdout: b.String()}
}

// print is the form of launchctl print, which Apple documents as no interface.
func (j *job) print() string {
	var b strings.Builder
	active := 0
	if j.pid != 0 {
		active = 1
	}
	fmt.Fprintf(&b, "system/%s = {\n\tactive count = %d\n\tpath = %s\n\ttype = LaunchDaemon\n\tstate = %s\n\n",
		j.def.Label, active, j.path, j.state())
	fmt.Fprintf(&b, "\tprogram = %s\n\targuments = {\n", j.def.Program)
	for _, a := range j.def.Arguments {
		fmt.Fprintf(&b, "\t\t%s\n", a)
	}
	b.WriteString("\t}\n\n")
	printPath(&b, "stdout path", j.def.Stdout)
	printPath(&b, "stderr path", j.def.Stderr)
	b.WriteString("\tdefault environment = {\n\t\tPATH => " + wire.DefaultPath + "\n\t}\n\n\tenvironment = {\n")
	for _, k := range sortedKeys(j.def.Environment) {
		fmt.Fprintf(&b, "\t\t%s => %s\n", k, j.def.Environment[k])
	}
	fmt.Fprintf(&b, "\t\tXPC_SERVICE_NAME => %s\n\t}\n\n\tdomain = system\n", j.def.Label)
	printPath(&b, "username", j.def.UserName)
	fmt.Fprintf(&b, "\tminimum runtime = %d\n\texit timeout = %d\n\truns = %d\n",
		seconds(j.def.Throttle), seconds(j.def.ExitTimeout), j.runs)
	if j.pid != 0 {
		fmt.Fprintf(&b, "\tpid = %d\n\timmediate reason = %s\n", j.pid, j.reason)
	}
	b.WriteString(j.lastExit())
	b.WriteString("\n\tspawn type = daemon (3)\n\tproperties = " + j.properties() + "\n}\n")
	return b.String()
}

func printPath(b *strings.Builder, name, value string) {
	if value != "" {
		fmt.Fprintf(b, "\t%s = %s\n", name, value)
	}
}

func seconds(d time.Duration) int { return int(d / time.Second) }

func (j *job) lastExit() string {
	switch {
	case !j.ended:
		return "\tlast exit code = (never exited)\n"
	case j.last.Signal != 0:
		text := fmt.Sprintf("\tlast terminating signal = %s: %d\n", signalText(j.last), int(j.last.Signal))
		if j.last.Reason != "" {
			text += "\tlast exit reason = " + j.last.Reason + "\n"
		}
		return text
	case j.last.Code == exConfig:
		return fmt.Sprintf("\tlast exit code = %d: EX_CONFIG\n", j.last.Code)
	}
	return fmt.Sprintf("\tlast exit code = %d\n", j.last.Code)
}

func signalText(s Status) string {
	text := s.Signal.String()
	return strings.ToUpper(text[:1]) + text[1:]
}

func (j *job) properties() string {
	var p []string
	if j.def.KeepAlive.any() {
		p = append(p, "keepalive")
	}
	if j.def.RunAtLoad {
		p = append(p, "runatload")
	}
	if j.def.AbandonGroup {
		p = append(p, "abandons process group")
	}
	return strings.Join(append(p, "inferred program"), " | ")
}

func (j *job) lastColumn() string {
	switch {
	case !j.ended:
		return "-"
	case j.last.Signal != 0:
		return fmt.Sprint(-int(j.last.Signal))
	}
	return fmt.Sprint(j.last.Code)
}

func (l *Launchd) ctlList(args []string) Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch len(args) {
	case 0:
		var b strings.Builder
		b.WriteString("PID\tStatus\tLabel\n")
		for _, label := range sortedKeys(l.jobs) {
			j := l.jobs[label]
			pid, status := "-", "0"
			if j.pid != 0 {
				pid = fmt.Sprint(j.pid)
			}
			if j.ended {
				status = j.lastColumn()
			}
			fmt.Fprintf(&b, "%s\t%s\t%s\n", pid, status, label)
		}
		return Result{Stdout: b.String()}
	case 1:
		j, ok := l.jobs[args[0]]
		if !ok {
			return Result{RC: codeNotFound, Stderr: fmt.Sprintf("Could not find service %q in domain for port\n", args[0])}
		}
		return Result{Stdout: j.list()}
	}
	return unmodelled("list with several labels")
}

func (j *job) list() string {
	var b strings.Builder
	b.WriteString("{\n")
	printPathQuoted(&b, "StandardOutPath", j.def.Stdout)
	printPathQuoted(&b, "StandardErrorPath", j.def.Stderr)
	fmt.Fprintf(&b, "\t\"LimitLoadToSessionType\" = \"System\";\n\t\"Label\" = %q;\n\t\"OnDemand\" = %t;\n",
		j.def.Label, !j.def.KeepAlive.any())
	fmt.Fprintf(&b, "\t\"LastExitStatus\" = %d;\n", j.waitStatus())
	if j.pid != 0 {
		fmt.Fprintf(&b, "\t\"PID\" = %d;\n", j.pid)
	}
	fmt.Fprintf(&b, "\t\"Program\" = %q;\n\t\"ProgramArguments\" = (\n", j.def.Program)
	for _, a := range j.def.Arguments {
		fmt.Fprintf(&b, "\t\t%q;\n", a)
	}
	b.WriteString("\t);\n};\n")
	return b.String()
}

func printPathQuoted(b *strings.Builder, name, value string) {
	if value != "" {
		fmt.Fprintf(b, "\t%q = %q;\n", name, value)
	}
}

// waitStatus is the raw status word launchctl list shows.
func (j *job) waitStatus() int {
	if j.last.Signal != 0 {
		return int(j.last.Signal)
	}
	return j.last.Code << 8
}
