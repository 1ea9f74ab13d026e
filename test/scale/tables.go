package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// printTables prints a run for the book.
func printTables(out io.Writer, path string) error {
	r, err := readRecord(path)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n%s", r.costTable(), r.phaseTable())
	return err
}

// row of the table of costs: a value of each size.
type row struct {
	name  string
	value func(cost) float64
}

// per divides by a number that is not nothing.
func per(value float64, by int) float64 { return value / float64(max(1, by)) }

// minutely is a value of a rest by the minute.
func minutely(value float64, u usage) float64 {
	if u.Seconds <= 0 {
		return 0
	}
	return value * 60 / u.Seconds
}

func (u usage) requests() float64 { return float64(u.Reads + u.Writes) }

// acts are the vendor's calls but for pages of lists, which the time decides.
func (u usage) acts() float64 { return float64(u.Calls - u.Lists) }

var rows = []row{
	{"managers started to all hosts known, s", func(c cost) float64 { return c.found.Seconds }},
	{"all claimed, s", func(c cost) float64 { return c.claimedSeconds }},
	{"all Running, s", func(c cost) float64 { return c.up.Seconds }},
	{"all released, wiped and free, s", func(c cost) float64 { return c.down.Seconds }},
	{"processor for each Machine that comes up, ms", func(c cost) float64 { return per(1000*c.up.Processor, c.hosts) }},
	{"processor for each that is released, ms", func(c cost) float64 { return per(1000*c.down.Processor, c.hosts) }},
	{"requests to the API server for each that comes up", func(c cost) float64 { return per(c.up.requests(), c.hosts) }},
	{"of these, writes", func(c cost) float64 { return per(float64(c.up.Writes), c.hosts) }},
	{"requests to the API server for each that is released", func(c cost) float64 { return per(c.down.requests(), c.hosts) }},
	{"vendor calls for each that comes up, but lists", func(c cost) float64 { return per(c.up.acts(), c.hosts) }},
	{"vendor calls for each that is released, but lists", func(c cost) float64 { return per(c.down.acts(), c.hosts) }},
	{"at rest: requests to the API server a minute", func(c cost) float64 { return minutely(c.rest.requests(), c.rest) }},
	{"at rest: vendor calls a minute", func(c cost) float64 { return minutely(float64(c.rest.Calls), c.rest) }},
	{"at rest: processor, % of a core", func(c cost) float64 { return minutely(100*c.rest.Processor, c.rest) / 60 }},
	{"memory without Machines, MB", func(c cost) float64 { return c.emptyMB }},
	{"memory at rest with all, MB", func(c cost) float64 { return c.restMB }},
	{"most memory until then, MB", func(c cost) float64 { return c.peakMB }},
	{"goroutines at rest", func(c cost) float64 { return float64(c.restGoroutines) }},
	{"most goroutines until then", func(c cost) float64 { return float64(c.peakGoroutines) }},
}

// costTable has a column for each size.
func (r *record) costTable() string {
	head := []string{"hosts and Machines"}
	costs := r.costs()
	for _, c := range costs {
		head = append(head, strconv.Itoa(c.hosts))
	}
	var b strings.Builder
	line(&b, head)
	b.WriteString(strings.Repeat("|---", len(head)) + "|\n")
	for _, row := range rows {
		cells := []string{row.name}
		for _, c := range costs {
			cells = append(cells, known(row.value(c)))
		}
		line(&b, cells)
	}
	return b.String()
}

// phaseTable has a line for each thing that happened to the largest fleet.
func (r *record) phaseTable() string {
	var b strings.Builder
	line(&b, []string{"", "took", "processor", "API requests", "vendor calls", "of these spoilt", "most memory", "most goroutines", "nobody led", "wrong"})
	b.WriteString(strings.Repeat("|---", 10) + "|\n")
	for i, p := range r.largest() {
		led := ""
		if p.NobodyLedSeconds > 0 {
			led = number(p.NobodyLedSeconds) + " s"
		}
		line(&b, []string{
			fmt.Sprintf("%d %s", i+1, p.Name), number(p.Used.Seconds) + " s", number(p.Used.Processor) + " s", number(p.Used.requests()),
			strconv.Itoa(p.Used.Calls), strconv.Itoa(p.Used.Spoilt), number(p.PeakMB) + " MB", strconv.Itoa(p.PeakGoroutines), led, strconv.Itoa(len(p.Wrong)),
		})
	}
	return b.String()
}

// largest are the phases of the largest fleet.
func (r *record) largest() (all []phase) {
	hosts := 0
	for _, p := range r.Phases {
		hosts = max(hosts, p.Hosts)
	}
	for _, p := range r.Phases {
		if p.Hosts == hosts {
			all = append(all, p)
		}
	}
	return all
}

func line(out io.Writer, cells []string) {
	for _, cell := range cells {
		fmt.Fprint(out, "| ")
		if cell != "" {
			fmt.Fprint(out, cell, " ")
		}
	}
	fmt.Fprintln(out, "|")
}

// known leaves out what was not measured, which nothing takes no time for.
func known(value float64) string {
	if value == 0 {
		return ""
	}
	return number(value)
}

// number has three digits that say something, and no fewer where it is larger.
func number(value float64) string {
	if value == math.Trunc(value) || math.Abs(value) >= 100 {
		return strconv.FormatFloat(value, 'f', 0, 64)
	}
	return strconv.FormatFloat(value, 'g', 3, 64)
}
