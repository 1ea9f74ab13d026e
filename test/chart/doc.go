// Package chart renders charts/macfleet with helm and looks at what comes out: the
// flags that follow from the values, the forms of the workload kubeconfig, the
// fleets, and the sentences that refuse nonsense. What a cluster makes of it is
// test/e2e's, which installs the same chart.
package chart
