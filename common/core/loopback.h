// Which addresses mean this machine only.
#ifndef COMMON_CORE_LOOPBACK_H_
#define COMMON_CORE_LOOPBACK_H_

#include "absl/strings/string_view.h"

namespace paceline {

// Whether "HOST:PORT" (or HOST) means this machine only: localhost, 127.0.0.0/8, [::1]; of several,
// with commas between them, whether each does. A name that merely begins like an address does not,
// nor does an empty host, which stands for all interfaces.
bool IsLoopback(absl::string_view addresses);

}  // namespace paceline

#endif  // COMMON_CORE_LOOPBACK_H_
