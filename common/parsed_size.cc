#include "common/parsed_size.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstdint>

namespace paceline {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// As libprotobuf 3.21 lays them out on 64 bits, where a list or a table of entries has up to twice
// the room that it needs. A field takes up to 48, a map, but most take 8.
constexpr size_t kMessage = 32;  // Its table, its arena, which fields it has.
constexpr size_t kField = 16;
constexpr size_t kEntry = 16;    // Of a list: a number, or a pointer.
constexpr size_t kText = 48;     // A string, without what does not fit in it.
constexpr size_t kUnknown = 32;  // A field that the type does not know.
constexpr int kMaxDepth = 100;   // The parser's own.

class Scale {
 public:
  Scale(CodedInputStream* encoded, size_t limit) : encoded_(*encoded), limit_(limit) {}

  size_t total() const { return total_; }

  // The rest of what encoded_ is limited to is one message. False: enough is known.
  bool WeighMessage(const Descriptor& type, int depth) {
    if (depth > kMaxDepth) return false;
    if (!Add(kMessage + kField * static_cast<size_t>(type.field_count()))) return false;
    while (const uint32_t tag = encoded_.ReadTag()) {
      const FieldDescriptor* field = type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
      if (!WeighField(tag, field, depth)) return false;
    }
    return true;
  }

 private:
  bool Add(size_t bytes) {
    total_ += bytes;
    return total_ <= limit_;
  }

  bool WeighField(uint32_t tag, const FieldDescriptor* field, int depth) {
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      // A group is skipped with all that is in it, each of which is a field that nobody knows.
      const int before = encoded_.CurrentPosition();
      if (!WireFormatLite::SkipField(&encoded_, tag)) return false;
      const auto skipped = static_cast<size_t>(encoded_.CurrentPosition() - before);
      const size_t inside =
          WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_START_GROUP
              ? kUnknown * skipped
              : 0;
      if (field == nullptr) return Add(kUnknown + inside);
      return Add((field->is_repeated() ? kEntry : 0) + inside);
    }
    int size = 0;
    if (!encoded_.ReadVarintSizeAsInt(&size)) return false;
    if (field == nullptr) return Add(kUnknown + kText + static_cast<size_t>(size)) && Skip(size);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      const CodedInputStream::Limit outer = encoded_.PushLimit(size);
      if (!Add(kEntry) || !WeighMessage(*field->message_type(), depth + 1)) return false;
      if (encoded_.BytesUntilLimit() != 0) return false;
      encoded_.PopLimit(outer);
      return true;
    }
    // A list of numbers, each of at least a byte; or a text.
    const bool numbers = field->cpp_type() != FieldDescriptor::CPPTYPE_STRING;
    return Add(numbers ? kEntry * static_cast<size_t>(size)
                       : kEntry + kText + static_cast<size_t>(size)) &&
           Skip(size);
  }

  bool Skip(int bytes) { return encoded_.Skip(bytes); }

  CodedInputStream& encoded_;
  const size_t limit_;
  size_t total_ = 0;
};

}  // namespace

size_t ParsedSize(const Descriptor& type, google::protobuf::io::ZeroCopyInputStream* encoded,
                  size_t limit) {
  CodedInputStream stream(encoded);
  Scale scale(&stream, limit);
  scale.WeighMessage(type, 0);
  return scale.total();
}

}  // namespace paceline
