// Which addresses mean this machine only, and which all of its interfaces.
#ifndef COMMON_CORE_LOOPBACK_H_
#define COMMON_CORE_LOOPBACK_H_

#include "absl/strings/string_view.h"

namespace paceline {

// Whether "HOST:PORT" (or HOST) means this machine only: localhost, 127.0.0.0/8, [::1]; of several,
// with commas between them, whether each does. A name that merely begins like an address does not,
// nor does an empty host, which stands for all interfaces.
bool IsLoopback(absl::string_view addresses);

// Whether one listens at "HOST:PORT" on all interfaces: 0.0.0.0 or [::]. That is no address by
// which others reach this machine.
bool IsEveryInterface(absl::string_view address);

}  // namespace paceline

#endif  // COMMON_CORE_LOOPBACK_H_
