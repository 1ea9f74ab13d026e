package server

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// metricsText is written in Prometheus' text format.
type metricsText struct{ strings.Builder }

// family begins a metric.
func (m *metricsText) family(name, kind, help string) {
	m.WriteString("# HELP " + name + " " + help + "\n# TYPE " + name + " " + kind + "\n")
}

// sample writes a value; labels are names and values by turns.
func (m *metricsText) sample(name string, value float64, labels ...string) {
	m.sampleAt(time.Time{}, name, value, labels...)
}

// sampleAt writes a value that was read earlier; the zero time is that of the request.
func (m *metricsText) sampleAt(at time.Time, name string, value float64, labels ...string) {
	m.WriteString(name)
	for i := 0; i+1 < len(labels); i += 2 {
		separator := ","
		if i == 0 {
			separator = "{"
		}
		m.WriteString(separator + labels[i] + `="` + labelEscapes().Replace(labels[i+1]) + `"`)
	}
	if len(labels) > 0 {
		m.WriteString("}")
	}
	m.WriteString(" " + strconv.FormatFloat(value, 'g', -1, 64))
	if !at.IsZero() {
		m.WriteString(" " + strconv.FormatInt(at.UnixMilli(), 10))
	}
	m.WriteString("\n")
}

// gauge is a metric with one value.
func (m *metricsText) gauge(name, help string, value float64) {
	m.family(name, "gauge", help)
	m.sample(name, value)
}

func labelEscapes() *strings.Replacer {
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
}

func (m *metricsText) send(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write([]byte(m.String()))
}
