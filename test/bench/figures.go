package main

import (
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/macfleet/macfleet/test/bench/figure"
)

// seconds are written as such.
type seconds float64

// measured is everything that one run has measured.
type measured struct {
	settings settings
	freed    *freed
	claims   *claims
	peer     *peer
	rest     []quiet
	visits   *visits
	scaled   *scaled
	verbs    []verbTime
}

// hostsInAPage is how many servers the vendor tells of at once, at most.
const hostsInAPage = 100

// tellClaims writes what was measured of claims.
func (m *measured) tellClaims(r *figure.Report) error {
	r.Settings, r.Details, r.Peer = m.settings.told(), m.details(), "loop under one lock"
	r.Add(slices.Concat(m.freedFigures(), m.claimFigures(), m.visitFigures())...)
	return m.end(r)
}

// tellScale writes what was measured of MachineDeployments.
func (m *measured) tellScale(r *figure.Report) error {
	r.Settings, r.Peer = "no time of a Mac's, a VM's or the vendor's own", "Cluster API's in-memory provider"
	r.Add(m.scaleFigures()...)
	return m.end(r)
}

// tellVerbs writes what was measured of verbs.
func (m *measured) tellVerbs(r *figure.Report) error {
	r.Settings = fmt.Sprintf("%d hosts, each with a Machine that runs", m.settings.hosts)
	r.Add(m.verbFigures()...)
	return m.end(r)
}

// end writes a report below the folder, unless nothing of its part was measured.
func (m *measured) end(r *figure.Report) error {
	if len(r.Figures) == 0 {
		return nil
	}
	return r.End(os.Stdout, m.settings.folder)
}

func (s settings) told() string {
	return fmt.Sprintf("the vendor takes %s for each answer, %g requests a second to the API server", s.latency, s.kubeQPS)
}

func (m *measured) freedFigures() []figure.Figure {
	f := m.freed
	if f == nil {
		return nil
	}
	what := fmt.Sprintf("freed host to claim, %d Machines waiting, %d hosts at once", f.Waiting, m.settings.atOnce)
	return []figure.Figure{
		figure.New(what, "ms", f.Times, figure.AtMost(100).On(figure.P99)),
		figure.New("requests to the API server for each host freed, claimed and set up", "", figure.Of(f.RequestsAFree), figure.AtMost(100)),
	}
}

func (m *measured) claimFigures() (rows []figure.Figure) {
	if c := m.claims; c != nil {
		what := fmt.Sprintf("%d Machines that wait, %d free hosts: ", c.Machines, m.settings.hosts)
		rows = append(rows,
			figure.New(what+"all claimed", "s", figure.Of(c.Claimed)),
			m.shown(what+"all shown"),
			m.calls(what+"vendor calls a claim"),
			figure.New(what+"most vendor calls that a claim took", "", figure.Of(c.MostCalls), figure.AtMost(4)),
			figure.New(what+"requests to the API server for each claim", "", figure.Of(float64(c.Requests.sum())/float64(c.Machines)), figure.AtMost(15)),
		)
	}
	for _, q := range m.rest {
		what := fmt.Sprintf("vendor calls at rest, %d hosts, %d Machines: ", m.settings.hosts, q.Machines)
		pages := (m.settings.hosts + hostsInAPage - 1) / hostsInAPage
		rows = append(rows,
			figure.New(what+"a list", "", figure.Of(q.CallsAList), figure.AtMost(float64(pages))),
			figure.New(what+"a minute", "", figure.Of(q.CallsMinute)),
		)
	}
	return rows
}

// shown is asked for as the vendor lets it be: 4 calls a claim at 100 a second are 40 s for 1,000.
func (m *measured) shown(name string) figure.Figure {
	goals := []figure.Goal{figure.AtMost(48), figure.AtMostTimes(1.0 / 55)}
	if m.claims.Machines != 1000 || m.settings.hosts != 1000 {
		goals = nil // which say nothing of fewer
	}
	if m.peer == nil {
		return figure.New(name, "s", figure.Of(m.claims.Shown))
	}
	return figure.Beside(name, "s", figure.Of(m.claims.Shown), figure.Of(m.peer.Took), figure.Sample{}, goals...)
}

func (m *measured) calls(name string) figure.Figure {
	if m.peer == nil {
		return figure.New(name, "", figure.Of(m.claims.CallsAHost), figure.AtMost(4))
	}
	return figure.Beside(name, "", figure.Of(m.claims.CallsAHost), figure.Of(m.peer.CallsAHost), figure.Sample{}, figure.AtMost(4))
}

func (m *measured) verbFigures() (rows []figure.Figure) {
	for _, v := range m.verbs {
		rows = append(rows,
			figure.New("`"+v.verb+"`", "ms", figure.Milliseconds(v.walls), figure.AtMost(v.goal)),
			figure.New("`"+v.verb+"`: processor", "ms", figure.Milliseconds(v.processor)),
		)
	}
	return rows
}

// printRequests lists who asks the API server what.
func (m *measured) printRequests(out io.Writer) {
	if f := m.freed; f != nil {
		f.Requests.print(out, "each host freed, claimed and set up", f.Frees)
	}
	if c := m.claims; c != nil {
		c.Requests.print(out, "each claim", c.Machines)
	}
	if v := m.visits; v != nil {
		v.asked.print(out, "each visit to a Machine that runs", len(v.times)/visitRounds*(visitRounds+1))
	}
}

// details are who asked for what.
func (m *measured) details() any {
	return struct {
		Freed  *freed  `json:"freed,omitempty"`
		Claims *claims `json:"claims,omitempty"`
		Peer   *peer   `json:"peer,omitempty"`
		Rest   []quiet `json:"rest,omitempty"`
	}{m.freed, m.claims, m.peer, m.rest}
}
