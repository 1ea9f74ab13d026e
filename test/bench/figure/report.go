package figure

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"
)

// Folder is where benches write, one file a part, unless somebody asks for another.
const Folder = "bench"

// Report is what one part of the benches measured in one run.
type Report struct {
	// Part is the name of the file, without its ending.
	Part string    `json:"part"`
	At   time.Time `json:"at"`
	// TookSeconds is the whole run, with what was built and set up for it.
	TookSeconds float64 `json:"tookSeconds"`
	Commit      string  `json:"commit"`
	Machine     Machine `json:"machine"`
	Settings    string  `json:"settings,omitempty"`
	// Ours and Peer name the two in the table.
	Ours    string   `json:"ours,omitempty"`
	Peer    string   `json:"peer,omitempty"`
	Notes   []string `json:"notes,omitempty"`
	Figures []Figure `json:"figures"`
	// Details are what the figures were made of, where a part tells it.
	Details any `json:"details,omitempty"`
}

// Begin starts a report, with the machine as it is now.
func Begin(part string) *Report {
	m := thisMachine()
	m.BusyAtStart = busyNow()
	return &Report{Part: part, At: time.Now().UTC().Truncate(time.Second), Commit: commit(), Machine: m}
}

// Add puts figures into the report.
func (r *Report) Add(figures ...Figure) { r.Figures = append(r.Figures, figures...) }

// End ends the run: it prints the table and writes the file of its part below the folder.
func (r *Report) End(out io.Writer, folder string) error {
	r.Machine.LoadAtEnd, r.TookSeconds = load(), time.Since(r.At).Round(time.Second).Seconds()
	r.Print(out)
	return r.write(filepath.Join(folder, r.Part+".json"))
}

// Print writes the table for a terminal.
func (r *Report) Print(out io.Writer) {
	fmt.Fprintf(out, "%s, in %.0f s: %s\n", r.Part, r.TookSeconds, r.Machine)
	if r.Settings != "" {
		fmt.Fprintln(out, r.Settings)
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "FIGURE\tMEASURED\tPEER\tRATIO\tGOAL")
	for _, f := range r.Figures {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", f.Name, f.Measured.told(f.Unit, f.Goals), f.peer(), f.ratio(), f.asked())
	}
	_ = table.Flush() // to the terminal
	fmt.Fprintln(out)
	for _, note := range r.Notes {
		fmt.Fprintln(out, note)
	}
}

func (f Figure) peer() string {
	if f.Peer == nil {
		return ""
	}
	return f.Peer.told(f.Unit, f.Goals)
}

func (f Figure) ratio() string {
	if f.Ratio == nil {
		return ""
	}
	return f.Ratio.told("", nil)
}

func (r *Report) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the figures: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the folder of the figures: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the figures: %w", err)
	}
	return nil
}

// Read reads a report that was written.
func Read(path string) (*Report, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading figures: %w", err)
	}
	r := &Report{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("reading the figures in %s: %w", path, err)
	}
	return r, nil
}
