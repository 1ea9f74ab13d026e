package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/macfleet/macfleet/test/agent/stage"
)

// ticksASecond are the kernel's units of processor time.
const ticksASecond = 100

// usage is what the managers have used, both together, up to one time.
type usage struct {
	Seconds float64 `json:"seconds"`
	// Processor is the managers' time, Others' that of the control plane and of Cluster API's core.
	Processor float64 `json:"processorSeconds"`
	Others    float64 `json:"othersProcessorSeconds"`
	// Reads are requests to the API server by GET, of which a watch is one; Writes all others.
	Reads  int `json:"apiReads"`
	Writes int `json:"apiWrites"`
	// Calls of the vendor, of which Lists are pages of a list and Spoilt those that a fault met.
	Calls  int `json:"vendorCalls"`
	Lists  int `json:"vendorLists"`
	Spoilt int `json:"vendorCallsSpoilt"`
	// Pushes that ended well.
	Pushes int `json:"pushes"`
}

// since is what was used after an earlier time.
func (u usage) since(before usage) usage {
	return usage{
		Seconds: u.Seconds - before.Seconds, Processor: u.Processor - before.Processor, Others: u.Others - before.Others,
		Reads: u.Reads - before.Reads, Writes: u.Writes - before.Writes, Calls: u.Calls - before.Calls,
		Lists: u.Lists - before.Lists, Spoilt: u.Spoilt - before.Spoilt, Pushes: u.Pushes - before.Pushes,
	}
}

// sample is one look at the managers and the fleet.
type sample struct {
	usage
	counts
	// MemoryMB and Goroutines are those of the manager that has most of them; 0: none runs.
	MemoryMB   float64 `json:"memoryMB"`
	Goroutines int     `json:"goroutines"`
	// Leader is which of the managers leads, counted from 1; 0: none.
	Leader int `json:"leader"`
	// Load is the mean of runnable processes over a minute.
	Load float64 `json:"load"`
}

// process is a manager, through all of its lives.
type process struct {
	pid int
	// before is what its former lives have used, last what the present one has.
	before, last spent
}

type spent struct {
	ticks         int64
	reads, writes int
}

func (s spent) add(other spent) spent {
	return spent{s.ticks + other.ticks, s.reads + other.reads, s.writes + other.writes}
}

// meter looks at the managers now and then.
type meter struct {
	fleet *fleet
	began time.Time

	mu        sync.Mutex
	processes [managers]process
	lastCall  int64
	calls     struct{ all, lists, spoilt int }
	samples   []sample
}

func newMeter(f *fleet) *meter { return &meter{fleet: f, began: time.Now()} }

// watch takes samples until ctx ends.
func (m *meter) watch(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		m.sample(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// sample looks at everything once.
func (m *meter) sample(ctx context.Context) sample {
	m.mu.Lock()
	defer m.mu.Unlock()
	var now sample
	now.counts, _ = m.fleet.counts(ctx) // as of the cache; while it can't be read nothing is known
	pids := m.fleet.PIDs()
	for n := range m.processes {
		m.look(ctx, n, pids[fmt.Sprint("manager-", n+1)], &now)
	}
	for name, pid := range pids {
		if used, err := stage.UsageOf(pid); err == nil && !strings.HasPrefix(name, "manager-") {
			now.Others += float64(used.Ticks) / ticksASecond
		}
	}
	m.readJournal()
	now.Seconds, now.Pushes, now.Load = time.Since(m.began).Seconds(), m.fleet.macs.pushes(), load()
	now.Calls, now.Lists, now.Spoilt = m.calls.all, m.calls.lists, m.calls.spoilt
	m.samples = append(m.samples, now)
	return now
}

// look adds what one manager has used, and what it holds where it runs.
func (m *meter) look(ctx context.Context, n, pid int, now *sample) {
	p := &m.processes[n]
	if pid != p.pid {
		p.before, p.last, p.pid = p.before.add(p.last), spent{}, pid
	}
	if used, err := stage.UsageOf(pid); err == nil && used.RSS > 0 {
		p.last.ticks = used.Ticks
		now.MemoryMB = max(now.MemoryMB, float64(used.RSS)/1e6)
		if told, err := scrape(ctx, m.fleet.MetricsAddress(n)); err == nil {
			p.last.reads, p.last.writes = told.reads, told.writes
			now.Goroutines = max(now.Goroutines, told.goroutines)
			if told.leads {
				now.Leader = n + 1
			}
		}
	}
	all := p.before.add(p.last)
	now.Processor += float64(all.ticks) / ticksASecond
	now.Reads += all.reads
	now.Writes += all.writes
}

// readJournal counts the vendor's calls since the last time.
func (m *meter) readJournal() {
	for _, entry := range m.fleet.Vendor().Journal(m.lastCall) {
		m.lastCall = entry.Seq
		m.calls.all++
		if entry.Call == "ListServers" {
			m.calls.lists++
		}
		if entry.Status == 0 || entry.Status == http.StatusTooManyRequests || entry.Status >= http.StatusInternalServerError {
			m.calls.spoilt++
		}
	}
}

// after are the samples from a time on.
func (m *meter) after(seconds float64) (all []sample) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.samples {
		if s.Seconds >= seconds {
			all = append(all, s)
		}
	}
	return all
}

// told is what a manager's metrics say of it.
type told struct {
	reads, writes, goroutines int
	leads                     bool
}

// scraper is patient with managers that are held up. One that is dead refuses at once.
var scraper = &http.Client{Timeout: time.Minute}

func scrape(ctx context.Context, address string) (told, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return told{}, err
	}
	response, err := scraper.Do(request)
	if err != nil {
		return told{}, fmt.Errorf("reading the manager's metrics: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return told{}, fmt.Errorf("reading the manager's metrics: %s", response.Status)
	}
	return parseMetrics(response.Body)
}

func parseMetrics(in io.Reader) (out told, err error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			continue // a metric that nobody asks for
		}
		switch series := line[:at]; {
		case series == "go_goroutines":
			out.goroutines = int(value)
		case strings.HasPrefix(series, "leader_election_master_status{"):
			out.leads = out.leads || value == 1
		case !strings.HasPrefix(series, "rest_client_requests_total{"):
		case strings.Contains(series, `method="GET"`):
			out.reads += int(value)
		default:
			out.writes += int(value)
		}
	}
	return out, lines.Err()
}

// load is the mean of runnable processes over the last minute; 0 where nobody tells.
func load() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	value, _ := strconv.ParseFloat(first, 64) // as above
	return value
}

// leader is which of the managers leads, counted from 1; 0: none.
func (m *meter) leader(ctx context.Context) int {
	for n := range managers {
		if told, err := scrape(ctx, m.fleet.MetricsAddress(n)); err == nil && told.leads {
			return n + 1
		}
	}
	return 0
}
