// Lets torch compute in bfloat16 where that is safe, for the life of this object.
//
// Weights stay float; so do the operations that need it, such as the loss.
#ifndef WORKER_TRAINER_LOOP_AUTOCAST_H_
#define WORKER_TRAINER_LOOP_AUTOCAST_H_

#include <c10/core/DeviceType.h>

namespace paceline {

class Autocast {
 public:
  // Does nothing unless `enabled`.
  Autocast(bool enabled, c10::DeviceType device);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const bool enabled_;
  const c10::DeviceType device_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_AUTOCAST_H_
