// A set of node indices as bits: quick to combine for policies of many jobs over many nodes.
#ifndef CONTROLLER_CORE_SCHEDULE_NODE_SET_H_
#define CONTROLLER_CORE_SCHEDULE_NODE_SET_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline {

class NodeSet {
 public:
  // A set of indices from 0 to size - 1. Sets that are combined must have the same size.
  explicit NodeSet(int size, bool all = false)
      : words_((size + 63) / 64, all ? ~uint64_t{0} : uint64_t{0}) {
    if (all && size % 64 != 0) words_.back() = (uint64_t{1} << (size % 64)) - 1;
  }

  void Add(int index) { words_[index / 64] |= Bit(index); }
  void Remove(int index) { words_[index / 64] &= ~Bit(index); }
  bool Contains(int index) const { return (words_[index / 64] & Bit(index)) != 0; }

  void Add(const NodeSet& other) {
    for (size_t w = 0; w < words_.size(); ++w) words_[w] |= other.words_[w];
  }
  void Keep(const NodeSet& other) {
    for (size_t w = 0; w < words_.size(); ++w) words_[w] &= other.words_[w];
  }
  void Remove(const NodeSet& other) {
    for (size_t w = 0; w < words_.size(); ++w) words_[w] &= ~other.words_[w];
  }
  bool Meets(const NodeSet& other) const {
    for (size_t w = 0; w < words_.size(); ++w) {
      if ((words_[w] & other.words_[w]) != 0) return true;
    }
    return false;
  }

  // Calls `visit(index)` for each index, ascending.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (size_t w = 0; w < words_.size(); ++w) {
      for (uint64_t left = words_[w]; left != 0; left &= left - 1) {
        visit(static_cast<int>(w * 64) + __builtin_ctzll(left));
      }
    }
  }

 private:
  static uint64_t Bit(int index) { return uint64_t{1} << (index % 64); }

  std::vector<uint64_t> words_;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_SCHEDULE_NODE_SET_H_
