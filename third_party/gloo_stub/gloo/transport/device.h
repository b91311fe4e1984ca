// A Device is only ever held by shared_ptr. An UnboundBuffer is deleted through its
// virtual destructor by torch's send and receive works.
#ifndef GLOO_STUB_TRANSPORT_DEVICE_H_
#define GLOO_STUB_TRANSPORT_DEVICE_H_

namespace gloo {
namespace transport {

class Device;

class UnboundBuffer {
 public:
  virtual ~UnboundBuffer();
};

}  // namespace transport
}  // namespace gloo

#endif  // GLOO_STUB_TRANSPORT_DEVICE_H_
