package wire

// numberState is the position of a scan within a number.
type numberState uint8

const (
	numberStart numberState = iota
	numberMinus
	numberZero
	numberInt
	numberPoint
	numberFraction
	numberExponent
	numberSign
	numberPower
)

// numberSteps is the state that a kind of byte leads to, 0 for none.
var numberSteps = [numberPower + 1][5]numberState{
	// digits 1 to 9, zero, minus, point, e; a plus counts as a minus where there is no minus before
	numberStart:    {numberInt, numberZero, numberMinus, 0, 0},
	numberMinus:    {numberInt, numberZero, 0, 0, 0},
	numberZero:     {0, 0, 0, numberPoint, numberExponent},
	numberInt:      {numberInt, numberInt, 0, numberPoint, numberExponent},
	numberPoint:    {numberFraction, numberFraction, 0, 0, 0},
	numberFraction: {numberFraction, numberFraction, 0, 0, numberExponent},
	numberExponent: {numberPower, numberPower, numberSign, 0, 0},
	numberSign:     {numberPower, numberPower, 0, 0, 0},
	numberPower:    {numberPower, numberPower, 0, 0, 0},
}

// scanNumber scans a number up to the first byte that cannot belong to it.
func (s *jsonScanner) scanNumber(b []byte) scanResult {
	i, state := s.at, s.number
	for ; i < len(b); i++ {
		kind := 0
		switch c := b[i]; {
		case '1' <= c && c <= '9':
		case c == '0':
			kind = 1
		case c == '-', c == '+' && state == numberExponent:
			kind = 2
		case c == '.':
			kind = 3
		case c == 'e', c == 'E':
			kind = 4
		default:
			return s.endNumber(i, state)
		}
		next := numberSteps[state][kind]
		if next == 0 {
			s.at = i
			return scanBad
		}
		state = next
	}
	s.at, s.number = i, state
	return scanMore
}

func (s *jsonScanner) endNumber(end int, state numberState) scanResult {
	s.at, s.number = end, state
	switch state {
	case numberZero, numberInt, numberFraction, numberPower:
		return scanDone
	}
	return scanBad
}
