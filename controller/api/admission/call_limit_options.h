// How much clients may ask of the controller at once (call_limits.h).
#ifndef CONTROLLER_API_ADMISSION_CALL_LIMIT_OPTIONS_H_
#define CONTROLLER_API_ADMISSION_CALL_LIMIT_OPTIONS_H_

#include "absl/time/time.h"

namespace paceline {

struct CallLimitOptions {
  // Per known caller, including reads and opening streams. It admits a program that looks at some
  // hundred jobs each second, but keeps a program that never waits from using up a core.
  double calls_per_s = 500;  // 0: no limit.
  double call_burst = 5000;
  // Per caller. A person's script makes some in a second; each costs a transaction on disk.
  double mutations_per_s = 100;  // 0: no limit.
  double mutation_burst = 1000;
  // Watches and logs that may be open at once. Each holds a message in gRPC.
  int streams = 4096;
  int streams_per_caller = 1024;
  // How long a stream waits for its reader to take one message, and for a worker's hello.
  absl::Duration stream_patience = absl::Minutes(1);
  absl::Duration hello_patience = absl::Seconds(10);
};

}  // namespace paceline

#endif  // CONTROLLER_API_ADMISSION_CALL_LIMIT_OPTIONS_H_
