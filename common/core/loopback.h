// Recognises addresses that mean only this machine, or all of its interfaces.
#ifndef COMMON_CORE_LOOPBACK_H_
#define COMMON_CORE_LOOPBACK_H_

#include "absl/strings/string_view.h"

namespace paceline {

// Whether "HOST:PORT" (or HOST) means only this machine: localhost, 127.0.0.0/8, [::1]. For
// several, separated by commas, whether all do. False for a name that merely begins like such an
// address, and for an empty host, which means all interfaces.
bool IsLoopback(absl::string_view addresses);

// Whether listening at "HOST:PORT" means all interfaces: 0.0.0.0 or [::]. Other machines cannot
// reach this one by such an address.
bool IsEveryInterface(absl::string_view address);

}  // namespace paceline

#endif  // COMMON_CORE_LOOPBACK_H_
