package main

// scale is what test/scale writes.
type scale struct {
	Phases []struct {
		Name  string  `json:"name"`
		Hosts int     `json:"hosts"`
		Begin float64 `json:"begin"`
		End   float64 `json:"end"`
	} `json:"phases"`
	Samples []sample `json:"samples"`
}

type sample struct {
	Seconds    float64 `json:"seconds"`
	Processor  float64 `json:"processorSeconds"`
	Reads      float64 `json:"apiReads"`
	Writes     float64 `json:"apiWrites"`
	Calls      float64 `json:"vendorCalls"`
	MemoryMB   float64 `json:"memoryMB"`
	Goroutines float64 `json:"goroutines"`
	Running    float64 `json:"running"`
	Free       float64 `json:"free"`
}

// shortest time between two samples that a rate is taken of, in seconds.
const shortest = 1

const minute = 60

// chart has the lines of the largest fleet.
func (s scale) chart() chart {
	marks, begin, end := s.largest()
	c := chart{unit: "minutes", marks: marks, panels: []panel{
		{title: "Machines that run"},
		{title: "free hosts"},
		{title: "managers: processor, % of a core", peak: true},
		{title: "manager: resident memory, MB", peak: true},
		{title: "manager: goroutines", peak: true},
		{title: "managers: requests to the API server a second", peak: true},
		{title: "vendor: calls a second", peak: true},
	}}
	var before *sample
	for i := range s.Samples {
		now := &s.Samples[i]
		if now.Seconds < begin || now.Seconds > end {
			continue
		}
		if before == nil {
			before = now
			continue
		}
		passed := now.Seconds - before.Seconds
		if passed < shortest {
			continue
		}
		for i, y := range []float64{
			now.Running, now.Free, 100 * (now.Processor - before.Processor) / passed, now.MemoryMB, now.Goroutines,
			(now.Reads + now.Writes - before.Reads - before.Writes) / passed, (now.Calls - before.Calls) / passed,
		} {
			c.panels[i].points = append(c.panels[i].points, point{now.Seconds / minute, y})
		}
		before = now
	}
	return c
}

// largest are the beginnings of what happened to the largest fleet, and from when to when that was.
func (s scale) largest() (marks []mark, begin, end float64) {
	hosts := 0
	for _, p := range s.Phases {
		hosts = max(hosts, p.Hosts)
	}
	for _, p := range s.Phases {
		if p.Hosts != hosts {
			continue
		}
		if len(marks) == 0 {
			begin = p.Begin
		}
		marks, end = append(marks, mark{p.Begin / minute, p.Name}), p.End
	}
	return marks, begin, end
}
