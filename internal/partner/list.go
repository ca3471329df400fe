package partner

import "guild"

// Services lists the services that something was decided about, in no order.
func (f *Fold) Services() []guild.Service {
	return f.list(func(r record) bool { return r.State != "" })
}

// Known lists the services that facts are about, if only that they were asked, in no order.
func (f *Fold) Known() []guild.Service { return f.list(func(record) bool { return true }) }

func (f *Fold) list(wanted func(record) bool) (all []guild.Service) {
	records := f.records()
	for _, r := range records.All() {
		if wanted(r) {
			all = append(all, r.Service)
		}
	}
	return all
}
