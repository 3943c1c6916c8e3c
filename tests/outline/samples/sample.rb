require 'json'

module Shelves
  LIMIT = 10

  class Shelf < Hash
    attr_reader :size

    def initialize(size, flag: true)
      @size = size
    end

    def self.make(*rows)
      new(rows.length)
    end

    def ready? = true

    class << self
      def other
        1
      end
    end

    private

    def hidden
      [1, 2].each do |x|
        puts x
      end
    end
  end
end

def load(path)
  path
end
