package command

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"unicode"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/wire"
)

// UsageError reports a mistake in the command line.
type UsageError struct{ err error }

func (e UsageError) Error() string { return e.err.Error() }
func (e UsageError) Unwrap() error { return e.err }

// Usage wraps an error in a UsageError.
func Usage(err error) error { return UsageError{err} }

// Usagef returns a formatted UsageError.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// FlagError converts an error about a flag into a UsageError. path is the command's name.
func FlagError(path string, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return Usagef("%w; see %s --help", unknown, path)
	}
	if bare, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return Usagef("--%s needs a value", bare.GetFlag().Name)
	}
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		if want, ok := wanted[wrong.GetFlag().Value.Type()]; ok {
			return Usagef("--%s %s: want %s", wrong.GetFlag().Name, wrong.GetValue(), want)
		}
	}
	return Usage(err)
}

// wanted describes the valid values of flags by type, for types whose Go parsers return unclear
// errors.
var wanted = map[string]string{
	"int": "a whole number", "uint64": "a whole number, not negative", "float64": "a number",
	"bool": "true or false", "duration": "a duration, such as 30s", "format": "text or json",
}

// Listen returns a UsageError if err says that the address of a flag is invalid. Otherwise it
// returns err unchanged.
func Listen(flag, address string, err error) error {
	if wrong, ok := errors.AsType[*net.AddrError](err); ok {
		return Usagef("--%s %s: %s", flag, address, wrong.Err)
	}
	return err
}

// NoArgs returns a UsageError if args is not empty. It is for the field Args of a *cobra.Command.
// The type parameter C makes it unnecessary for this package to import cobra.
func NoArgs[C interface{ CommandPath() string }](cmd C, args []string) error {
	if len(args) > 0 {
		return Usagef("%s takes no argument, got %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// Explain turns the error of a request into a readable error. Its text is the server's message, or
// says that the server did not answer. Explain returns other errors unchanged.
func Explain(err error) error {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return explainStatus(err, status)
	}
	if own, ok := errors.AsType[*reflector.Error](err); ok {
		if own.Err == nil {
			return own.Sentinel
		}
		return fmt.Errorf("%w: %w", own.Sentinel, own.Err)
	}
	if request, ok := errors.AsType[*url.Error](err); ok {
		if plugin := missingPlugin.FindStringSubmatch(request.Err.Error()); plugin != nil {
			return fmt.Errorf("the credential plugin %s, which the kubeconfig names, is not installed", plugin[1])
		}
		if at, parseErr := url.Parse(request.URL); parseErr == nil {
			return fmt.Errorf("no answer from the server at %s://%s: %w", at.Scheme, at.Host, request.Err)
		}
	}
	if unreadable, ok := errors.AsType[*wire.SyntaxError](err); ok {
		return fmt.Errorf("the server's response cannot be read: %s", unreadable.What)
	}
	return err
}

// missingPlugin matches client-go's error, of several paragraphs, about a missing exec plugin.
var missingPlugin = regexp.MustCompile(`exec: executable (\S+) not found`)

func explainStatus(err error, status *apierrors.StatusError) error {
	message := messageOf(status)
	switch {
	case apierrors.IsForbidden(status), errors.Is(err, weir.ErrForbidden):
		return fmt.Errorf("forbidden: %s", message)
	case apierrors.IsUnauthorized(status):
		return fmt.Errorf("the server does not accept the credentials: %s", message)
	case apierrors.IsTooManyRequests(status):
		text := "the server asks to retry later (too many requests)"
		if details := status.ErrStatus.Details; details != nil && details.RetryAfterSeconds > 0 {
			text += fmt.Sprintf(", Retry-After %d s", details.RetryAfterSeconds)
		}
		if !strings.Contains(strings.ToLower(message), "too many requests") {
			text += ": " + message
		}
		return errors.New(text)
	}
	return fmt.Errorf("the server answered: %s", message)
}

// messageOf returns the message of a status. If a front end answered with an HTML page, client-go's
// message contains it or says nothing about it; messageOf then returns the page's title.
func messageOf(status *apierrors.StatusError) string {
	texts := []string{status.ErrStatus.Message}
	if details := status.ErrStatus.Details; details != nil {
		for _, cause := range details.Causes {
			texts = append(texts, cause.Message)
		}
	}
	for _, text := range texts {
		if page := humanize.HTMLPage(text); page != "" {
			return fmt.Sprintf("%d with %s", status.ErrStatus.Code, page)
		}
	}
	return status.ErrStatus.Message
}

// OneLine returns the text of an error on one line, like OneLineText.
func OneLine(err error) string { return OneLineText(err.Error()) }

// OneLineText returns a text on one line. It replaces the characters that Printable replaces.
func OneLineText(text string) string {
	return Printable(strings.Join(strings.Fields(strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")), " "))
}

// Printable replaces characters that would move a terminal's cursor or change its text direction.
// Clients choose their names and objects contain arbitrary text, so either may contain such
// characters.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}
