package guild

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseAmount reads an amount with its unit, such as 1000sat or "500 test". A number alone has the unit "".
func ParseAmount(s string) (amount uint64, unit string, err error) {
	s = strings.TrimSpace(s)
	end := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(s)
	}
	unit = strings.TrimSpace(s[end:])
	if amount, err = strconv.ParseUint(s[:end], 10, 63); err != nil {
		return 0, "", fmt.Errorf("%.40q is not an amount: want a whole number and its unit, such as 1000sat", s)
	}
	if len(unit) > 20 || strings.ContainsFunc(unit, func(r rune) bool { return r < 'a' || r > 'z' }) {
		return 0, "", fmt.Errorf("%.40q: %.40q is not a unit: want lower case letters, such as sat", s, unit)
	}
	return amount, unit, nil
}
