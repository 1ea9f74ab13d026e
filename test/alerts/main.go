// Command alerts is as much of Prometheus as an alert needs: it scrapes one endpoint, has Prometheus' own rule
// manager evaluate a file of rules, and serves what fires as Prometheus' API does. Its time runs faster than the
// clock, so that a rule that waits for half an hour fires within seconds.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	var o options
	listen := flag.String("listen", "127.0.0.1:0", "where /api/v1/alerts is served")
	flag.StringVar(&o.rules, "rules", "charts/macfleet/files/alerts.yaml", "a file of rules")
	flag.StringVar(&o.url, "url", "", "what is scraped, such as https://host:8443/metrics")
	flag.StringVar(&o.tokenFile, "token-file", "", "a file with the bearer token of whoever scrapes")
	flag.DurationVar(&o.every, "every", 250*time.Millisecond, "how often it scrapes and evaluates")
	flag.DurationVar(&o.step, "step", 15*time.Second, "how much later it believes it to be each time")
	flag.StringVar(&o.stretch, "stretch", "", "a gauge of seconds that have passed, such as macfleet_machines_longest_wait_seconds: they pass faster, too")
	flag.StringVar(&o.pictures, "pictures", "", "the folder into which each dashboard is drawn at the end, as SVG; empty: none is")
	flag.StringVar(&o.dashboards, "dashboards", "charts/macfleet/files/dashboards/*.json", "the dashboards that -pictures draws")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, *listen, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "alerts:", err)
		os.Exit(1)
	}
}

// run returns once ctx has ended.
func run(ctx context.Context, listen string, o options) error {
	dir, err := os.MkdirTemp("", "macfleet-alerts")
	if err != nil {
		return fmt.Errorf("making a folder for the series: %w", err)
	}
	defer os.RemoveAll(dir)
	w, err := newWatch(dir, o)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return errors.Join(err, w.close())
	}
	server := &http.Server{Handler: w.handler(), ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(listener) }() // ends with Close
	fmt.Printf("http://%s/api/v1/alerts\n", listener.Addr())
	w.run(ctx)
	return errors.Join(server.Close(), w.drawAll(), w.close())
}

// drawAll draws the dashboards, where that was asked for.
func (w *watch) drawAll() error {
	if w.pictures == "" {
		return nil
	}
	boards, err := readDashboards(w.dashboards)
	if err != nil {
		return err
	}
	return w.draw(context.Background(), boards, w.pictures)
}

// handler serves what Prometheus serves below /api/v1/alerts, and what time it is believed to be.
func (w *watch) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/alerts", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		answer := struct {
			Status string `json:"status"`
			Data   state  `json:"data"`
		}{"success", w.state()}
		_ = json.NewEncoder(rw).Encode(answer) // who has gone needs no answer
	})
	return mux
}
