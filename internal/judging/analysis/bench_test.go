package analysis

import "testing"

func BenchmarkAnalysis(b *testing.B) {
	a := analyst(b)
	a.Warm = true
	s := Subject{Delivery: delivery(b, map[string]string{"total.py": clean})}
	files, err := survey(s.Delivery)
	if err != nil {
		b.Fatal(err)
	}
	for _, j := range a.jobs(s, files) {
		b.Run(j.tool, func(b *testing.B) {
			var cpu int64
			for b.Loop() {
				cpu += a.ask(b.Context(), j, files).usage.CPUMs
			}
			b.ReportMetric(float64(cpu)/float64(b.N), "cpu-ms/op")
		})
	}
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			if _, err := a.Start(b.Context(), s).Wait(0); err != nil {
				b.Fatal(err)
			}
		}
	})
}
