// The interface that torch's GlooStore overrides; the order of the methods is Gloo's.
#ifndef GLOO_STUB_RENDEZVOUS_STORE_H_
#define GLOO_STUB_RENDEZVOUS_STORE_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

// Gloo defines it, and torch then overrides the second half of the methods too.
#define GLOO_STORE_HAS_STORE_V2

namespace gloo {
namespace rendezvous {

class Store {
 public:
  using Bytes = std::vector<char>;
  using Keys = std::vector<std::string>;

  virtual ~Store();

  virtual void set(const std::string& key, const Bytes& value) = 0;
  virtual Bytes get(const std::string& key) = 0;
  virtual void wait(const Keys& keys) = 0;
  virtual void wait(const Keys& keys, const std::chrono::milliseconds& timeout) = 0;

  virtual bool has_v2_support() = 0;
  virtual std::vector<Bytes> multi_get(const Keys& keys) = 0;
  virtual void multi_set(const Keys& keys, const std::vector<Bytes>& values) = 0;
  virtual void append(const std::string& key, const Bytes& value) = 0;
  virtual int64_t add(const std::string& key, int64_t value) = 0;
};

}  // namespace rendezvous
}  // namespace gloo

#endif  // GLOO_STUB_RENDEZVOUS_STORE_H_
