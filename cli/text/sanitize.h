// Text from elsewhere, made safe for a terminal.
//
// Logs, reasons and names come from other machines and from user code. Printed unchanged they could
// move the cursor, retitle the window or hide what follows; here every control character is shown
// instead of obeyed.
#ifndef CLI_TEXT_SANITIZE_H_
#define CLI_TEXT_SANITIZE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace paceline {

// Writes control characters (C0 except tab and newline, C1, DEL), marks that reorder text, and
// bytes that are not UTF-8 as \xNN or \uNNNN. "\r\n" becomes "\n".
std::string Sanitize(absl::string_view text);

// The same for one line: newlines become spaces.
std::string SanitizeLine(absl::string_view text);

// Columns that `text` takes on a terminal: its code points, not counting our colour sequences.
int DisplayWidth(absl::string_view text);

// Cuts `text` to `width` columns; an ellipsis ("...") marks the cut if there is room for it.
std::string Shortened(absl::string_view text, int width);

}  // namespace paceline

#endif  // CLI_TEXT_SANITIZE_H_
